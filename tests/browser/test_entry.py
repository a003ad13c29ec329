"""Who may do what: cookies, tokens of changes, origins, policies, and the files that are served."""

import re
import urllib.parse

FORM = {"content-type": "application/x-www-form-urlencoded"}


def enter(stack, **headers):
    body = urllib.parse.urlencode({"secret": stack.secret}).encode()
    return stack.ask("/sign-in", "POST", {**FORM, "origin": stack.url, **headers}, body)


def cookie(stack):
    status, headers, _ = enter(stack)
    assert status == 303
    return headers["set-cookie"].split(";")[0]


def test_a_cookie_is_for_this_page_alone_and_holds_no_secret(stack):
    status, headers, _ = enter(stack)
    said = headers["set-cookie"]
    assert status == 303 and headers["location"] == "/"
    for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
        assert part in said
    assert stack.secret not in said


def test_nothing_is_shown_or_changed_without_a_session(stack):
    for path in ("/", "/lanes", "/held", "/posts/windows", "/series/main", "/jobs/POST:a/SHOT:b"):
        status, headers, _ = stack.ask(path)
        assert (status, headers["location"].split("?")[0]) == (303, "/sign-in"), path
    for path in ("/lanes/prism/pause", "/jobs/POST:windows/SHOT:s1/cancel"):
        status, headers, _ = stack.ask(path, "POST", {**FORM, "origin": stack.url}, b"csrf=&attempt=1")
        assert (status, headers["location"]) == (303, "/sign-in"), path
    status, _, _ = stack.ask("/media/POST/windows/SHOT/s1/1-" + "0" * 64 + ".png")
    assert status == 401


def token(stack, own):
    _, _, body = stack.ask("/lanes", headers={"cookie": own})
    return re.search(r'name="csrf" value="([0-9a-f]+)"', body.decode()).group(1)


def test_a_change_needs_its_own_sessions_token_and_our_origin(stack):
    own, other = cookie(stack), cookie(stack)
    mine, theirs = token(stack, own), token(stack, other)
    assert mine != theirs
    for headers, form in [
        ({"origin": stack.url}, {"csrf": theirs}),
        ({"origin": stack.url}, {"csrf": ""}),
        ({"origin": stack.url}, {}),
        ({"origin": "https://evil.example"}, {"csrf": mine}),
        ({"origin": "null"}, {"csrf": mine}),
        ({"origin": stack.url, "sec-fetch-site": "cross-site"}, {"csrf": mine}),
        ({}, {"csrf": mine}),
    ]:
        body = urllib.parse.urlencode(form).encode()
        status, _, _ = stack.ask("/lanes/prism/pause", "POST", {**FORM, "cookie": own, **headers}, body)
        assert status == 403, (headers, form)
    _, _, body = stack.ask("/lanes", headers={"cookie": own})
    assert b"Resume" not in body
    status, _, _ = enter(stack, origin="https://evil.example")
    assert status == 403


def test_a_page_says_what_a_browser_may_do_with_it(stack):
    status, headers, _ = stack.ask("/lanes", headers={"cookie": cookie(stack)})
    policy = headers["content-security-policy"]
    assert status == 200 and "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_the_same_page_is_not_sent_twice(stack):
    own = cookie(stack)
    status, headers, _ = stack.ask("/held", headers={"cookie": own})
    again, _, body = stack.ask("/held", headers={"cookie": own, "if-none-match": headers["etag"]})
    assert (status, again, body) == (200, 304, b"")


def test_only_recorded_outputs_are_served_and_in_parts(stack):
    stack.submit({"id": "served", "lane": "prism", "shots": [{"id": "s1", "prompt": "A lens", "media": "video"}]})
    job = stack.until("POST#served", lambda job: job["status"] == "succeeded")[0]
    asset = job["outcomes"][0]
    path, own = f"/media/{asset['location']}", {"cookie": cookie(stack)}
    status, headers, whole = stack.ask(path, headers=own)
    assert (status, headers["content-type"], len(whole)) == (200, "video/mp4", asset["size_bytes"])
    assert headers["x-content-type-options"] == "nosniff" and "sandbox" in headers["content-security-policy"]
    assert headers["content-disposition"] == "inline"
    status, headers, part = stack.ask(path, headers={**own, "range": "bytes=10-19"})
    assert (status, part) == (206, whole[10:20])
    assert headers["content-range"] == f"bytes 10-19/{len(whole)}"
    status, headers, _ = stack.ask(path, headers={**own, "range": f"bytes={len(whole)}-"})
    assert (status, headers["content-range"]) == (416, f"bytes */{len(whole)}")
    sha = asset["sha256"]
    for other in (
        path.replace(sha, "0" * 64),
        path.replace("/1-", "/2-"),
        path.replace(".mp4", ".html"),
        "/media/../handoff-secret",
        "/media/..%2F..%2Fapi-secret",
        "/media/%2E%2E/api-secret",
        "/media/POST/served/SHOT/..%2Fs1/1-" + sha + ".mp4",
    ):
        status, _, body = stack.ask(other, headers=own)
        assert status == 404 and stack.secret.encode() not in body, other
