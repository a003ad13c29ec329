"""One stack and one browser for all tests; a fresh, signed-in page for each, on which nothing may go wrong."""

import os
import time
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from stack import Stack

SHOTS = Path(__file__).parent / "shots"
# Debian's Chromium as root and without a way out.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK = {"width": 1280, "height": 860}
PHONE = {"width": 375, "height": 740}


@pytest.fixture(scope="session")
def stack():
    one = Stack()
    yield one
    one.stop()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(stack, browser):
    """Opens pages: `visit(path, **context)`. At the end none of them may have said anything on its console."""
    contexts, noises = [], []

    def open_page(path="/", signed_in=True, quiet=True, **options):
        options.setdefault("viewport", DESK)
        context = browser.new_context(base_url=stack.url, **options)
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        if quiet:
            page.on("console", lambda message: noises.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: noises.append(f"error: {error}"))
        page.goto("/sign-in" if signed_in else path)
        if signed_in:
            sign_in(page, stack.secret)
            if path != "/":
                page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert noises == []


def sign_in(page, secret):
    page.get_by_label("Secret").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Lanes").wait_for()


def until(page, expression, longest_s=20):
    """Waits until a page says so. Playwright's own waiting evaluates text, which the page's policy forbids."""
    end = time.monotonic() + longest_s
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"still not: {expression}"
        page.wait_for_timeout(100)


@pytest.fixture
def shot():
    """Keeps a screenshot: `shot(page, name)`."""
    SHOTS.mkdir(exist_ok=True)

    def take(page, name, full=True):
        # Pictures that are only loaded once they are near would be missing.
        page.evaluate("document.querySelectorAll('img').forEach((one) => { one.loading = 'eager' })")
        until(page, "[...document.images].every((one) => one.complete)")
        page.wait_for_timeout(950)
        page.screenshot(path=SHOTS / f"{name}.png", full_page=full)

    return take
