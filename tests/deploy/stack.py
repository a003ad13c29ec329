"""The deployed stack, as a person works with it (`sam`, `glassline --stack`), and a look behind it (the AWS SDK)."""

import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3

from build import ROOT
from processes import Failed, check, run, start, step

NAME = "glassline-test"
REGION = "us-east-1"
API, HANDOFF, PROVIDERS = "glassline/api", "glassline/handoff", "glassline/providers"

# Shorter than the defaults, so that what a broken function left is soon taken up again. Ticks come each minute.
SETTINGS = {
    "claim_lease_ms": 45_000,
    "submit_lease_ms": 45_000,
    "render_lease_ms": 60_000,
    "renew_below_ms": 25_000,
}
# By lane: capacity, what the provider offers after a lost answer, and how long a render takes there.
LANES = {
    "prism": (6, {"tier": "key", "lifetime_ms": 86_400_000}, (300, 1_500)),
    "kiln": (3, {"tier": "lookup", "settle_ms": 2_000}, (300, 1_500)),
    "slow": (4, {"tier": "key", "lifetime_ms": 86_400_000}, (20_000, 30_000)),
}


def wait_until(what: str, seconds: float, holds: Callable[[], Any]) -> Any:
    """Asks twice a second until the answer is true, and gives it."""
    end = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        check(time.monotonic() < end, f"{what}: not within {seconds:.0f} s")
        time.sleep(0.5)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment(path: Path) -> dict[str, str]:
    """What the tools are given: theirs first in the path, no account of a real cloud, nothing sent home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAM_"))}
    return kept | {
        "PATH": f"{path}{os.pathsep}{kept['PATH']}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "SAM_CLI_TELEMETRY": "0",
        # The linker of the machine: what it makes needs no newer C library than provided.al2023 has (build.py checks),
        # and cargo-lambda's own choice, zig, would compile every dependency again.
        "CARGO_LAMBDA_COMPILER": "cargo",
        "CARGO_TERM_COLOR": "never",
    }


class Sandbox:
    """The provider, with books of its own."""

    def __init__(self, program: Path, work: Path, env: dict[str, str]):
        accounts = [
            {
                "name": lane,
                "api_key": f"key-of-{lane}-{os.getpid()}",
                "idempotency_keys": recovery["tier"] == "key",
                "lookup": recovery["tier"] == "lookup",
                "render_min_ms": shortest,
                "render_max_ms": longest,
            }
            for lane, (_, recovery, (shortest, longest)) in LANES.items()
        ]
        config = work / "sandbox.json"
        config.write_text(json.dumps({"accounts": accounts, "books_file": str(work / "books.jsonl")}))
        self.keys = {account["name"]: account["api_key"] for account in accounts}
        process = start([str(program), "--config", str(config)], work / "sandbox.log", env)
        self.url = process.stdout.readline().strip()
        check(self.url.startswith("http://127.0.0.1:"), f"the sandbox didn't start, see {work / 'sandbox.log'}")

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rsplit(":", 1)[1])

    def providers(self) -> str:
        """The providers' secret."""
        lanes = {
            lane: {
                "adapter": "sandbox",
                "base_url": self.url,
                "api_key": self.keys[lane],
                "recovery": recovery,
                "submit_timeout_ms": 15_000,
                "poll_ms": 2_000,
            }
            for lane, (_, recovery, _) in LANES.items()
        }
        return json.dumps(lanes)

    def output_hosts(self) -> str:
        """The hosts that outputs may come from."""
        host = {"host": "127.0.0.1", "port": self.port, "allow_http": True, "allow_private": True}
        return json.dumps({lane: [host] for lane in LANES})


class Stack:
    """Emulator, template, command."""

    def __init__(self, emulator: Path, program: Path, work: Path, env: dict[str, str]):
        self.work, self.program = work, program
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        own = env | {
            "GATEWAY_PORT": str(port),
            "BIND_HOST": "127.0.0.1",
            # Roles are enforced: a permission that the template doesn't give is refused.
            "AUTH": "true",
            "AWS_ENDPOINT_URL": self.url,
            "LAMBDA_EXECUTOR": "local",
            "TMPDIR": str(work / "emulator"),
        }
        (work / "emulator").mkdir()
        self.env = env | {"AWS_ENDPOINT_URL": self.url}
        log = work / "emulator.log"
        self.process = start([str(emulator), str(Path(__file__).with_name("emulator.py"))], log, own)
        self._clients: dict[str, Any] = {}
        wait_until(f"the emulator's start (see {log})", 60, self._answers)

    def _answers(self) -> bool:
        check(self.process.poll() is None, f"the emulator ended, see {self.work / 'emulator.log'}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.url.rsplit(":", 1)[1]))) == 0

    def aws(self, service: str) -> Any:
        """A client of the AWS SDK."""
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                endpoint_url=self.url,
                region_name=REGION,
                aws_access_key_id="test",
                aws_secret_access_key="test",
            )
        return self._clients[service]

    def secret(self, name: str, value: str) -> None:
        """Creates a secret, or changes its value."""
        secrets = self.aws("secretsmanager")
        try:
            secrets.create_secret(Name=name, SecretString=value)
        except secrets.exceptions.ResourceExistsException:
            secrets.put_secret_value(SecretId=name, SecretString=value)

    def deploy(self, built: Path, parameters: dict[str, str], fails: bool = False) -> str:
        """`sam deploy`, with parameters."""
        pairs = [f"ParameterKey={key},ParameterValue={json.dumps(value)}" for key, value in parameters.items()]
        began = time.monotonic()
        said = run(
            [
                *("sam", "deploy", "--template-file", str(built / "template.yaml"), "--stack-name", NAME),
                *("--no-confirm-changeset", "--resolve-s3", "--capabilities", "CAPABILITY_IAM"),
                *("--parameter-overrides", *pairs),
            ],
            self.env,
            ROOT,
            fails,
        )
        print(f"   {self.status()} after {time.monotonic() - began:.0f} s", flush=True)
        return said

    def status(self) -> str:
        """The stack's status, or `none`."""
        try:
            return self.aws("cloudformation").describe_stacks(StackName=NAME)["Stacks"][0]["StackStatus"]
        except self.aws("cloudformation").exceptions.ClientError:
            return "none"

    def outputs(self) -> dict[str, str]:
        """The stack's outputs."""
        described = self.aws("cloudformation").describe_stacks(StackName=NAME)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}

    def resources(self, kind: str) -> dict[str, str]:
        """The stack's resources of a type: logical name and physical id."""
        pages = self.aws("cloudformation").get_paginator("list_stack_resources").paginate(StackName=NAME)
        found = [resource for page in pages for resource in page["StackResourceSummaries"]]
        return {
            resource["LogicalResourceId"]: resource["PhysicalResourceId"]
            for resource in found
            if resource["ResourceType"] == kind
        }

    def glassline(self, *arguments: str, fails: bool = False) -> Any:
        """`glassline --stack`, its JSON answer; what it said when it must fail."""
        base = [str(self.program), "--stack", NAME, "--endpoint-url", self.url, "--region", REGION]
        said = run([*base, "--json", *arguments], self.env, None, fails)
        return said if fails else json.loads(said)

    def submit(self, items: list[dict[str, Any]]) -> None:
        """Submits posts and stories."""
        file = self.work / "submit.json"
        file.write_text(json.dumps(items))
        answers = self.glassline("submit", str(file))["submitted"]
        for answer in answers:
            check(answer["ok"], f"{answer['id']} was refused: {answer['what']}")

    def request(self, path: str, secret: str, body: bytes) -> tuple[int, str]:
        """Posts JSON to the function `api` by its address; gives status and answer."""
        # The emulator tells Function URLs apart by the host's name, which leads nowhere.
        host = urlsplit(self.outputs()["ApiUrl"]).netloc
        headers = {"Host": host, "Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        asked = urllib.request.Request(self.url + path, body, headers)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def log_lines(self, function: str) -> Iterator[str]:
        """Everything that a function logged."""
        group = self.outputs()[f"{function}Logs"]
        pages = self.aws("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
        for page in pages:
            for event in page["events"]:
                yield event["message"]

    def alarm_sum(self, alarm: str) -> float:
        """What an alarm's own metric came to in the last hours."""
        name = self.resources("AWS::CloudWatch::Alarm")[alarm]
        watch = self.aws("cloudwatch")
        found = watch.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]
        now = time.time()
        points = watch.get_metric_statistics(
            Namespace=found["Namespace"],
            MetricName=found["MetricName"],
            Dimensions=found["Dimensions"],
            StartTime=now - 7_200,
            EndTime=now + 60,
            Period=60,
            Statistics=["Sum"],
        )["Datapoints"]
        return sum(point["Sum"] for point in points)

    def delete(self) -> None:
        """Takes the stack down as the README says: empty the bucket, then `sam delete`."""
        bucket = self.outputs()["BucketName"]
        s3 = self.aws("s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for entry in page.get("Contents", []):
                s3.delete_object(Bucket=bucket, Key=entry["Key"])
        run(["sam", "delete", "--stack-name", NAME, "--no-prompts", "--region", REGION], self.env, ROOT)
        if self.status() not in ("none", "DELETE_COMPLETE"):
            raise Failed(f"after `sam delete` the stack is {self.status()}")
        step("the stack is gone")
