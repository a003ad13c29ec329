"""Processes that end with this test, whatever becomes of it."""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

_started: list[subprocess.Popen] = []


class Failed(Exception):
    """Something that this test shows to be wrong, one sentence."""


def check(holds: bool, sentence: str) -> None:
    """Fails with a sentence unless it holds."""
    if not holds:
        raise Failed(sentence)


def step(sentence: str) -> None:
    """Says what comes next."""
    print(f"-- {sentence}", flush=True)


def end_all() -> None:
    """Ends every process that was started, with whatever these started themselves."""
    while _started:
        process = _started.pop()
        # The group may outlive the process that began it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_on_signals() -> None:
    """Makes SIGTERM and SIGHUP end the test as an error does."""
    atexit.register(end_all)

    def ended(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGHUP, ended)


def start(command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen:
    """Starts a process in a group of its own. Its standard output stays readable, its errors go to the log."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            start_new_session=True,
        )
    _started.append(process)
    return process


def run(command: list[str], environment: dict[str, str], cwd: Path | None = None, fails: bool = False) -> str:
    """Runs a command and gives what it printed; `fails`: it must not succeed, and its errors are given too."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=cwd,
        start_new_session=True,
    )
    _started.append(process)
    said, errors = process.communicate()
    _started.remove(process)
    succeeded = process.returncode == 0
    if succeeded == fails:
        print(said, errors, sep="\n", flush=True)
        raise Failed(f"`{' '.join(command[:4])} …` {'succeeded, which it must not' if succeeded else 'failed'}")
    return said + errors if fails else said
