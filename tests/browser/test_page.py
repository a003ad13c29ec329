"""What the page is: text stays text, it works without script, on a phone, by keyboard, by day and by night."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import PHONE, until
from playwright.sync_api import expect

MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script><b>bold</b> & 'quoted'"
WINDOWS = [
    "A rose window in deep blue and ruby, seen from the nave at noon",
    "A cracked green pane mended with a seam of gold",
    "Rain running down a leaded window, a street lamp blurred behind it",
    "Frost flowers growing across an attic skylight",
]
STORIES = ["the-lamp", "the-ferry"]


@pytest.fixture(scope="module")
def shown(stack):
    """A registry with something of everything."""
    shots = [{"id": f"s{n + 1}", "prompt": prompt} for n, prompt in enumerate(WINDOWS)]
    film = {"id": "s5", "prompt": "A slow turn around a glass lantern", "media": "video"}
    stack.submit({"id": "windows", "lane": "prism", "shots": [*shots, film]})
    stack.submit({"id": "marked", "lane": "prism", "shots": [{"id": "s1", "prompt": MARKUP}]})
    for key in STORIES:
        stack.submit({"series": "main", "key": key, "premise": f"The story of {key}", "lane": "prism"})
    for post in ("windows", "marked"):
        stack.until(f"POST#{post}", lambda job: job["status"] == "succeeded")
    return stack


def test_markup_in_a_prompt_is_text(shown, visit):
    page = visit("/posts/marked")
    expect(page.locator(".prompt")).to_have_text(MARKUP)
    expect(page.locator(".tile img")).to_have_attribute("alt", f"Shot s1: {MARKUP}")
    assert page.locator("main script, main b").count() == 0
    assert "owned" not in page.title()


def test_a_film_plays_in_place(shown, visit):
    page = visit("/posts/windows")
    film = page.locator(".tile video")
    expect(film).to_have_count(1)
    ready = "one => one.readyState >= 1 ? one.duration : new Promise(done => one.onloadedmetadata = () => done(one.duration))"
    assert film.evaluate(ready) > 1
    film.evaluate("one => { one.muted = true; return one.play() }")
    until(page, "document.querySelector('.tile video').currentTime > 0.3")
    # A change elsewhere on the page leaves it playing.
    film.evaluate("one => { one.dataset.same = 'yes' }")
    page.evaluate("document.getElementById('main').dataset.etag = '\"other\"'")
    until(page, "document.getElementById('main').dataset.etag !== '\"other\"'")
    assert film.evaluate("one => one.isConnected && one.dataset.same") == "yes"


def test_every_page_works_without_script(shown, visit, shot):
    page = visit("/", java_script_enabled=False)
    expect(page.get_by_role("heading", name="Series main")).to_be_visible()
    page.get_by_role("link", name="windows", exact=True).click()
    expect(page.locator(".tile img")).to_have_count(4)
    page.get_by_role("link", name="Shot s1").first.click()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status").first).to_contain_text("approved")
    page.get_by_role("link", name="Lanes").click()
    page.get_by_role("button", name="Pause blind").click()
    expect(page.locator("#lane-blind")).to_contain_text("Until a person resumes it")
    page.get_by_role("button", name="Resume blind").click()
    expect(page.locator("#lane-blind")).to_contain_text("Running")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Secret")).to_be_visible()
    page.goto("/lanes")
    expect(page.get_by_label("Secret")).to_be_visible()


PAGES = {
    "registry": "/",
    "series": "/series/main",
    "episode-1": "/series/main/episodes/1",
    "post": "/posts/windows",
    "shot": "/jobs/POST:windows/SHOT:s2",
    "lanes-all": "/lanes",
    "held-none": "/held",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_each_page_is_accessible_by_day_and_by_night(shown, visit, shot, name, scheme):
    page = visit(PAGES[name], color_scheme=scheme, reduced_motion="reduce")
    found = Axe().run(page).response["violations"]
    shot(page, f"{name}-{scheme}")
    told = [f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']][:3]}" for one in found]
    assert told == [], json.dumps(told, indent=1)


def test_the_sign_in_is_accessible_and_says_no_more_than_no(visit, shot):
    page = visit("/held", signed_in=False, quiet=False)
    expect(page.get_by_label("Secret")).to_be_focused()
    page.get_by_label("Secret").fill("not the secret of it")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("That didn't work. Check the secret and try again.")
    assert Axe().run(page).response["violations"] == []
    shot(page, "sign-in")


def test_the_way_on_leads_to_the_page_that_was_asked_for(stack, visit):
    page = visit("/lanes", signed_in=False)
    page.get_by_label("Secret").fill(stack.secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile("/lanes$"))


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_needs_no_sideways_scrolling(shown, visit, shot, name):
    page = visit(PAGES[name], viewport=PHONE, color_scheme="dark", device_scale_factor=2, has_touch=True, is_mobile=True)
    wide = page.evaluate("document.documentElement.scrollWidth")
    shot(page, f"{name}-phone")
    assert wide <= PHONE["width"], f"{wide} px wide"


def test_the_keyboard_reaches_everything_and_shows_where_it_is(shown, visit):
    page = visit("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.goto("/lanes")
    switch = page.get_by_role("button", name="Pause blind")
    for _ in range(40):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")
        if switch.evaluate("one => one === document.activeElement"):
            break
    expect(switch).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#lane-blind")).to_contain_text("Until a person resumes it")
    resume = page.get_by_role("button", name="Resume blind")
    resume.focus()
    # The focus stays where it is while the page looks again.
    page.evaluate("document.getElementById('main').dataset.etag = '\"other\"'")
    until(page, "document.getElementById('main').dataset.etag !== '\"other\"'")
    expect(resume).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#lane-blind")).to_contain_text("Running")
