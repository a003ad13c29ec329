"""A real stack on a temporary folder: `glassline local`, its provider with faults on demand, and posts for it."""

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

KEY = {"tier": "key", "lifetime_ms": 86_400_000}
LANES = [
    # One at a time and slowly: what it renders can be watched.
    {"name": "reel", "capacity": 1, "recovery": KEY, "render_min_ms": 2_500, "render_max_ms": 2_500},
    {"name": "prism", "capacity": 4, "recovery": KEY, "render_min_ms": 300, "render_max_ms": 600},
    # After a lost answer nobody can tell what its provider did.
    {"name": "blind", "capacity": 2, "recovery": {"tier": "none"}, "render_min_ms": 300, "render_max_ms": 600},
    # What stands in it while it is paused stays where it is.
    {"name": "still", "capacity": 2, "recovery": KEY, "render_min_ms": 300, "render_max_ms": 600},
]
# The local stack's own times: a check of a poll chain a second, a tick a second.
LONGEST_S = 60


class Stack:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="glassline-browser-")
        self.data = Path(self.folder.name) / "data"
        lanes = Path(self.folder.name) / "lanes.json"
        lanes.write_text(json.dumps(LANES))
        self.program = os.environ["GLASSLINE"]
        command = ["local", "--lanes", str(lanes), "--tick-seconds", "1"]
        self.process = subprocess.Popen(
            [self.program, "--data", str(self.data), "--json", *command],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"glassline local ended with {self.process.wait()}")
        addresses = json.loads(line)["addresses"]
        self.url = f"http://{addresses['api']}"
        self.provider = f"http://{addresses['provider']}"
        self.secret = (self.data / "api-secret").read_text().strip()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.folder.cleanup()

    def run(self, *arguments, text=None):
        """A command of the stack; what it prints."""
        command = [self.program, "--data", str(self.data), *arguments]
        return subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.PIPE).stdout

    def submit(self, *items):
        """Posts and stories, as a person submits them."""
        self.run("submit", "-", text="\n".join(json.dumps(item) for item in items))

    def show(self, key):
        """A post, an episode or a job as `glassline show --json` tells it."""
        return json.loads(self.run("--json", "show", key))

    def faults(self, *rules):
        """What goes wrong at the provider from now on."""
        request = urllib.request.Request(
            f"{self.provider}/faults",
            data=json.dumps({"rules": list(rules)}).encode(),
            method="PUT",
            headers={"content-type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=10).close()

    def renders(self):
        """The provider's own books."""
        with urllib.request.urlopen(f"{self.provider}/books", timeout=10) as answer:
            return json.load(answer)

    def ask(self, path, method="GET", headers=None, data=None):
        """Asks the page without a browser; status, headers and body, whatever the status."""
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method, headers=headers or {})
        opener = urllib.request.build_opener(_Stay)
        try:
            with opener.open(request, timeout=20) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def until(self, key, said, longest_s=LONGEST_S):
        """Waits until a job is as `said` tells."""
        end = time.monotonic() + longest_s
        while True:
            jobs = self.show(key)["jobs"]
            if all(said(job) for job in jobs):
                return jobs
            if time.monotonic() > end:
                raise AssertionError(f"{key} is still {jobs}")
            time.sleep(0.2)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None
