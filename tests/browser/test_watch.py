"""What people watch and do: an episode that fills, a lane that is paused, a held job, an output that is rejected."""

import re

from playwright.sync_api import expect

FRAMES = [
    "A village at night, one lit workshop, the furnace glowing through its open door",
    "A glassblower turns a gather of molten glass, her face lit orange, a child watching from the stairs",
    "The glass bird shatters on the stone floor, shards caught in mid-air",
    "Dawn: on the windowsill a new bird, clumsy and whole, throwing colours across the sleeping face",
]


def test_an_episode_fills_frame_by_frame_while_it_is_watched(stack, visit, shot):
    stack.run("series", "add", "archive", "--lane", "reel")
    stack.submit({"series": "archive", "key": "the-glassblower", "frames": FRAMES})
    page = visit("/series/archive")
    expect(page.get_by_role("heading", name="Season 1, episode 1")).to_be_visible()
    page.goto("/series/archive/episodes/1")
    # A page that is loaded anew loses this.
    page.evaluate("window.unreloaded = true")
    panes = page.locator(".strip .tile")
    expect(panes).to_have_count(4)
    seen = []
    for count in range(1, 5):
        expect(page.locator(".strip img")).to_have_count(count, timeout=30_000)
        seen.append(page.locator("#main").get_attribute("data-summary"))
        if count == 2:
            expect(panes.nth(2)).to_contain_text(re.compile("Rendering|Claimed|Being submitted|Ready"))
            shot(page, "episode-filling")
            height = page.locator(".film").bounding_box()["height"]
    assert len(set(seen)) == 4, seen
    expect(page.locator(".title .chip")).to_have_text("Complete")
    assert page.evaluate("window.unreloaded === true"), "the page was loaded anew"
    assert page.locator(".film").bounding_box()["height"] == height, "the strip jumped"
    for image in page.locator(".strip img").all():
        assert image.evaluate("one => one.decode().then(() => one.naturalWidth)") > 0
    expect(page.locator("#live")).to_contain_text("4 stored")
    shot(page, "episode")


def test_a_lane_is_paused_and_resumed(stack, visit, shot):
    page = visit("/lanes")
    lane = page.locator("#lane-still")
    lane.get_by_role("button", name="Pause still").click()
    expect(page.get_by_role("status").first).to_contain_text("paused")
    expect(lane.get_by_text("Paused", exact=True)).to_be_visible()
    stack.submit({"id": "waiting", "lane": "still", "shots": [{"id": "s1", "prompt": "A still lake"}]})
    expect(lane.locator("dd").first).to_have_text("1")
    shot(page, "lanes")
    # Ticks pass, and nothing starts.
    page.wait_for_timeout(2_500)
    assert stack.show("POST#waiting/SHOT#s1")["jobs"][0]["status"] == "ready"
    lane.get_by_role("button", name="Resume still").click()
    expect(lane.get_by_text("Running", exact=True)).to_be_visible()
    stack.until("POST#waiting", lambda job: job["status"] == "succeeded")


def held(stack, post, shots=1):
    shots = [{"id": f"s{n + 1}", "prompt": f"A bell under water, number {n + 1}"} for n in range(shots)]
    stack.faults({"fault": "drop_answer", "account": "blind", "next": len(shots)})
    stack.submit({"id": post, "lane": "blind", "shots": shots})
    stack.until(f"POST#{post}", lambda job: job["status"] == "held")
    stack.faults()


def test_a_held_job_is_resolved_in_each_way(stack, visit, shot):
    held(stack, "bells", 2)
    page = visit("/held")
    first = page.locator("[id='h-POST:bells/SHOT:s1']")
    expect(first).to_contain_text("attempt 1")
    shot(page, "held")
    # It was accepted: the provider's own books name the task.
    books = stack.renders()["renders"]
    task = next(one["id"] for one in books if "bells" in one["reference"] and "s1" in one["reference"])
    first.get_by_label("Task").fill(task)
    # What is typed stays while the page goes on looking.
    page.wait_for_timeout(4_500)
    expect(first.get_by_label("Task")).to_have_value(task)
    first.get_by_role("button", name="Record").click()
    expect(page.get_by_role("status").first).to_contain_text("recorded")
    stack.until("POST#bells/SHOT#s1", lambda job: job["status"] == "succeeded" and job["attempt"] == 1)
    # Nothing was accepted, a person says: it is tried again.
    page.locator("[id='h-POST:bells/SHOT:s2']").get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status").first).to_contain_text("tried again")
    stack.until("POST#bells/SHOT#s2", lambda job: job["status"] == "succeeded" and job["attempt"] > 1)
    held(stack, "gong")
    page.goto("/jobs/POST:gong/SHOT:s1")
    page.get_by_role("button", name="Give up").click()
    expect(page.get_by_role("status").first).to_contain_text("given up")
    stack.until("POST#gong", lambda job: job["status"] in ("cancelled", "failed"))
    page.goto("/held")
    expect(page.get_by_text("Nothing is held.")).to_be_visible()


def test_a_late_form_changes_nothing(stack, visit):
    held(stack, "late")
    page, other = visit("/held"), visit("/held", quiet=False)
    button = page.locator("[id='h-POST:late/SHOT:s1']").get_by_role("button", name="Give up")
    expect(button).to_be_visible()
    # The second page doesn't look again, so that it is late.
    other.evaluate("() => { window.fetch = () => new Promise(() => {}); }")
    button.click()
    expect(page.get_by_role("status").first).to_contain_text("given up")
    before = stack.show("POST#late/SHOT#s1")["jobs"][0]
    other.locator("[id='h-POST:late/SHOT:s1']").get_by_role("button", name="Try again").click()
    expect(other.get_by_role("heading", name="Nothing was changed")).to_be_visible()
    after = stack.show("POST#late/SHOT#s1")["jobs"][0]
    assert (after["status"], after["attempt"]) == (before["status"], before["attempt"])


def test_a_rejected_output_is_rendered_again(stack, visit, shot):
    stack.submit({"id": "judged", "lane": "prism", "shots": [{"id": "s1", "prompt": "A fox of blown glass"}]})
    stack.until("POST#judged", lambda job: job["status"] == "succeeded")
    page = visit("/jobs/POST:judged/SHOT:s1")
    first = page.locator(".stage img").get_attribute("src")
    shot(page, "job")
    page.get_by_text("Reject Shot s1").click()
    page.get_by_label("What is wrong with it?").fill("The fox has five legs")
    page.get_by_role("button", name="Reject and render again").click()
    expect(page.get_by_role("status").first).to_contain_text("rejected")
    # The request is a number of its own, and the claim is the next.
    expect(page.locator("#a-3")).to_contain_text("Stored", timeout=30_000)
    expect(page.locator("#a-1")).to_be_visible()
    second = page.locator(".stage img").get_attribute("src")
    assert second != first and "/3-" in second
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved", exact=True)).to_be_visible()
    shot(page, "job-second-attempt")
