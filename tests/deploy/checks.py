"""What must hold once everything has ended: in the table, in the bucket, in the queues, and in the provider's books."""

import hashlib
import json
import statistics
import urllib.request
from collections import Counter
from collections.abc import Iterable
from typing import Any

from processes import check
from stack import Sandbox, Stack

# A post's or episode's name, and how many jobs it has.
Parents = dict[str, int]


class Ledger:
    """What was submitted so far, and which messages QA has had."""

    def __init__(self, stack: Stack, sandbox: Sandbox):
        self.stack, self.sandbox = stack, sandbox
        self.parents: Parents = {}
        self.qa: Counter[str] = Counter()

    def post(self, name: str, lane: str, shots: int) -> dict[str, Any]:
        """A new post, to be submitted."""
        self.parents[f"POST#{name}"] = shots
        made = [{"id": f"s{n}", "prompt": f"{name}, view {n}"} for n in range(1, shots + 1)]
        return {"id": name, "lane": lane, "shots": made}

    def jobs(self) -> list[dict[str, Any]]:
        """Every job that was asked for, as the table has it."""
        found = []
        for parent, count in self.parents.items():
            jobs = self.stack.glassline("show", parent)["jobs"]
            check(len(jobs) == count, f"{parent} has {len(jobs)} jobs instead of {count}")
            found += jobs
        return found

    def statuses(self) -> Counter[str]:
        """How many jobs stand how."""
        return Counter(job["status"] for job in self.jobs())

    def all_succeeded(self) -> bool:
        """Whether every job has succeeded; fails as soon as one has ended otherwise."""
        statuses = self.statuses()
        for wrong in ("failed", "cancelled", "held"):
            check(statuses[wrong] == 0, f"{statuses[wrong]} jobs are {wrong}")
        return statuses["succeeded"] == statuses.total()

    def books(self) -> dict[str, Any]:
        """The provider's books."""
        with urllib.request.urlopen(f"{self.sandbox.url}/books", timeout=10) as answer:
            return json.load(answer)

    def _take_qa(self) -> None:
        sqs, queue = self.stack.aws("sqs"), self.stack.outputs()["QaQueueUrl"]
        while True:
            batch = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
            if not batch:
                return
            for message in batch:
                self.qa[json.loads(message["Body"])["outcome"]] += 1
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    def check_all(self) -> list[dict[str, Any]]:
        """Everything that is promised of jobs that have all succeeded; gives the jobs."""
        jobs = self.jobs()
        outcomes = {job["key"]: _outcome(job) for job in jobs}
        self._check_books(jobs)
        self._check_bucket(outcomes.values())
        self._take_qa()
        wanted = {f"{job['key']}/{job['attempt']}" for job in jobs}
        check(set(self.qa) == wanted, f"QA has heard of {len(self.qa)} outcomes instead of {len(wanted)}")
        twice = [outcome for outcome, count in self.qa.items() if count > 1]
        check(not twice, f"QA has heard twice of {twice[:3]}")
        self._check_queues()
        for lane in self.stack.glassline("lanes")["lanes"]:
            check(lane["in_use"] == 0, f"lane {lane['lane']} has {lane['in_use']} slots in use")
        spent = self.books()["totals"]["accepted"]
        print(f"   {len(jobs)} jobs succeeded and stored, {spent} renders paid, QA told once of each", flush=True)
        return jobs

    def _check_books(self, jobs: Iterable[dict[str, Any]]) -> None:
        books = self.books()
        paid = Counter(render["reference"] for render in books["renders"])
        twice = [reference for reference, count in paid.items() if count > 1]
        check(not twice, f"accepted more than once: {twice[:3]}")
        # Nothing failed at the provider, so one attempt of each job was submitted, whatever became of its functions.
        wanted = {f"{job['key']}/{job['attempt']}" for job in jobs}
        check(
            set(paid) == wanted, f"the books have {sorted(set(paid) ^ wanted)[:3]}, the table doesn't, or the reverse"
        )

    def _check_bucket(self, outcomes: Iterable[dict[str, Any]]) -> None:
        s3, bucket = self.stack.aws("s3"), self.stack.outputs()["BucketName"]
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        stored = {entry["Key"] for page in pages for entry in page.get("Contents", [])}
        recorded = {}
        for outcome in outcomes:
            location = outcome["location"].removeprefix(f"s3://{bucket}/")
            recorded[location] = outcome["sha256"]
        check(stored == set(recorded), f"in the bucket or in the table only: {sorted(stored ^ set(recorded))[:3]}")
        for location, sha256 in recorded.items():
            body = s3.get_object(Bucket=bucket, Key=location)["Body"].read()
            check(hashlib.sha256(body).hexdigest() == sha256, f"{location} has another hash than its outcome says")

    def _check_queues(self) -> None:
        for queue in self.stack.glassline("queues")["queues"]:
            dead = queue["queue"].endswith("-dlq")
            left = queue["visible"] + (queue["in_flight"] + queue["delayed"] if dead else 0)
            check(left == 0, f"{queue['queue']} has {left} messages")

    def drained(self) -> bool:
        """Whether no queue has any message, whatever its state."""
        queues = self.stack.glassline("queues")["queues"]
        return not any(queue["visible"] + queue["in_flight"] + queue["delayed"] for queue in queues)


def _outcome(job: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a job's last attempt; there is just one for each attempt that was submitted."""
    check(job["status"] == "succeeded", f"{job['key']} is {job['status']}")
    attempts = Counter(outcome["attempt"] for outcome in job["outcomes"])
    check(max(attempts.values(), default=0) == 1, f"{job['key']} has two outcomes of one attempt")
    own = [outcome for outcome in job["outcomes"] if outcome["attempt"] == job["attempt"]]
    check(len(own) == 1 and bool(own[0].get("location")), f"{job['key']} succeeded without an outcome that says where")
    return own[0]


def print_times(jobs: Iterable[dict[str, Any]]) -> None:
    """Says how long jobs took from submit to success."""
    seconds = sorted((job["ended_ms"] - job["created_ms"]) / 1_000 for job in jobs)
    print(
        f"   a job took {statistics.median(seconds):.1f} s from submit to success (median of {len(seconds)}; "
        f"{seconds[0]:.1f} to {seconds[-1]:.1f} s)",
        flush=True,
    )
