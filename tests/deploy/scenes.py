"""What happens to the deployed stack, scene by scene."""

import json
import secrets
from collections.abc import Callable
from pathlib import Path

import build
from checks import Ledger, print_times
from processes import check, step
from stack import API, HANDOFF, LANES, NAME, PROVIDERS, SETTINGS, Sandbox, Stack, wait_until

# What a scene may take, in seconds. A tick comes each minute, and what a dead function held comes back with its lease.
PATIENCE_S = 300


class Scenes:
    """The scenes share a stack and go on from one another."""

    def __init__(self, stack: Stack, sandbox: Sandbox, built: Path):
        self.stack, self.sandbox, self.built = stack, sandbox, built
        self.ledger = Ledger(stack, sandbox)
        self.secret = secrets.token_hex(16)
        self.parameters = {
            "HandoffSecret": HANDOFF,
            "ApiSecret": API,
            "ProvidersSecret": PROVIDERS,
            "OutputHosts": sandbox.output_hosts(),
            "Settings": json.dumps(SETTINGS),
            "DeletionProtection": "false",
        }

    def all(self) -> list[Callable[[], None]]:
        """The scenes in their order."""
        return [
            self.absent_secret,
            self.first_render,
            self.empty_secret,
            self.update_in_flight,
            self.failed_update,
            self.drained,
            self.teardown,
        ]

    def _deploy(self, fails: bool = False, **parameters: str) -> str:
        if not fails:
            self.parameters |= parameters
        return self.stack.deploy(self.built, self.parameters | parameters, fails)

    def _handoff(self, current: str) -> None:
        self.stack.secret(HANDOFF, json.dumps({"current": current, "previous": ""}))

    def _until_done(self) -> None:
        wait_until("all jobs succeed", PATIENCE_S, self.ledger.all_succeeded)
        self.ledger.check_all()

    def absent_secret(self) -> None:
        """Without a secret nothing is deployed, and what was begun is taken back."""
        step("deploy without the providers' secret: it must be taken back")
        self._handoff(self.secret)
        self.stack.secret(API, json.dumps({"current": self.secret, "previous": ""}))
        self._deploy(fails=True)
        check(self.stack.status() == "ROLLBACK_COMPLETE", f"the stack is {self.stack.status()}")
        said = self.stack.glassline("lanes", fails=True)
        check("isn't complete" in said, f"the command says: {said}")
        self.stack.aws("cloudformation").delete_stack(StackName=NAME)
        wait_until("the failed stack is deleted", 60, lambda: self.stack.status() in ("none", "DELETE_COMPLETE"))

    def first_render(self) -> None:
        """From nothing to rendered posts and an episode."""
        step("deploy, add lanes and a series, submit posts and a story")
        self.stack.secret(PROVIDERS, self.sandbox.providers())
        self._deploy()
        for lane, (capacity, _, _) in LANES.items():
            self.stack.glassline("lanes", "add", lane, "--capacity", str(capacity))
        self.stack.glassline("series", "add", "main", "--lane", "prism")
        story = {"series": "main", "key": "the-lamp", "frames": [f"A lamp, hour {n}" for n in range(1, 5)]}
        self.stack.submit([self.ledger.post("one", "prism", 10), self.ledger.post("two", "kiln", 6), story])
        self._post_by_http()
        self.ledger.parents["EPISODE#main#000001"] = 4
        wait_until("the episode is opened", PATIENCE_S, lambda: self.stack.glassline("episodes", "main"))
        self._until_done()
        print_times(self.ledger.jobs())
        wait_until("the schedule's full tick", 90, lambda: _says(self.stack, "Dispatch", '"event":"full_tick"'))

    def _post_by_http(self) -> None:
        """The function `api` takes a post from who has its secret, and nothing from others."""
        post = json.dumps(self.ledger.post("by-http", "kiln", 2)).encode()
        refused, _ = self.stack.request("/v1/posts", "not the secret at all", post)
        check(refused == 401, f"the API answers a wrong secret with {refused}")
        taken, said = self.stack.request("/v1/posts", self.secret, post)
        check(200 <= taken < 300, f"the API answers a post with {taken}: {said}")

    def empty_secret(self) -> None:
        """A secret without its value stops dispatch and worker at their start, and says so; nothing is lost."""
        step("empty the handoff secret with work in flight")
        self.stack.submit([self.ledger.post("held-up", "slow", 4)])
        wait_until(
            "four renders are at the provider", PATIENCE_S, lambda: self.ledger.books()["totals"]["running"] == 4
        )
        self._handoff("")
        self._deploy(SecretsRevision="emptied")
        paid = self.ledger.books()["totals"]["accepted"]
        self.stack.submit([self.ledger.post("waiting", "prism", 5)])
        line = "GLASSLINE_HANDOFF_SECRET is not set: it must hold the secret that signs handoffs"
        for function in ("Dispatch", "Worker"):
            wait_until(f"the log of {function} says why", 120, lambda f=function: _says(self.stack, f, line))
            alarm = f"{function}ErrorsAlarm"
            wait_until(f"the metric of {alarm} counts", 60, lambda a=alarm: self.stack.alarm_sum(a) > 0)
        check(self.ledger.books()["totals"]["accepted"] == paid, "something was submitted without the secret")
        step("mend it")
        self._handoff(self.secret)
        self._deploy(SecretsRevision="mended")
        self._until_done()

    def update_in_flight(self) -> None:
        """New code for every function, while jobs are ready, claimed and rendering."""
        step("deploy new code with work in flight")
        before = self._code()
        self.stack.submit([self.ledger.post("across", "slow", 6), self.ledger.post("many", "prism", 30)])
        wait_until("renders are at the provider", PATIENCE_S, lambda: self.ledger.books()["totals"]["running"] >= 4)
        build.renew(self.built, "2")
        begun = self.ledger.statuses()
        self._deploy()
        ended = self.ledger.statuses()
        after = self._code()
        check(all(after[name] != code for name, code in before.items()), "a function still has its old code")
        print(f"   before: {dict(begun)}, after: {dict(ended)}", flush=True)
        check(begun["rendering"] > 0 and ended["rendering"] + ended["ready"] > 0, "nothing was in flight")
        self._until_done()

    def _code(self) -> dict[str, str]:
        functions = self.stack.resources("AWS::Lambda::Function")
        client = self.stack.aws("lambda")
        return {
            name: client.get_function_configuration(FunctionName=function)["CodeSha256"]
            for name, function in functions.items()
        }

    def failed_update(self) -> None:
        """An update that can't be made is taken back, and the old one goes on rendering."""
        step("deploy an update that fails, with work in flight")
        self.stack.submit([self.ledger.post("undisturbed", "slow", 4)])
        wait_until("renders are at the provider", PATIENCE_S, lambda: self.ledger.books()["totals"]["running"] >= 4)
        self._deploy(fails=True, ProvidersSecret="glassline/absent", SecretsRevision="absent")
        check(self.stack.status() == "UPDATE_ROLLBACK_COMPLETE", f"the stack is {self.stack.status()}")
        self.stack.submit([self.ledger.post("afterwards", "kiln", 3)])
        self._until_done()

    def drained(self) -> None:
        """No message is left, not even one that a dead function had taken."""
        step("wait until every message has come to its end")
        wait_until("the queues are empty", 660, self.ledger.drained)
        self.ledger.check_all()

    def teardown(self) -> None:
        """Nothing of the stack is left."""
        step("take the stack down")
        self.stack.delete()
        left = _left(self.stack)
        check(not left, f"the teardown left {left}")


def _says(stack: Stack, function: str, line: str) -> bool:
    return any(line in said for said in stack.log_lines(function))


def _left(stack: Stack) -> list[str]:
    """Everything in the account that has the stack's name."""
    aws = stack.aws
    names = [table for table in aws("dynamodb").list_tables()["TableNames"]]
    names += [bucket["Name"] for bucket in aws("s3").list_buckets()["Buckets"]]
    names += [url.rsplit("/", 1)[1] for url in aws("sqs").list_queues().get("QueueUrls", [])]
    names += [function["FunctionName"] for function in aws("lambda").list_functions()["Functions"]]
    names += [
        mapping["EventSourceArn"] for mapping in aws("lambda").list_event_source_mappings()["EventSourceMappings"]
    ]
    names += [group["logGroupName"] for group in aws("logs").describe_log_groups()["logGroups"]]
    names += [role["RoleName"] for role in aws("iam").list_roles()["Roles"]]
    names += [alarm["AlarmName"] for alarm in aws("cloudwatch").describe_alarms()["MetricAlarms"]]
    names += [board["DashboardName"] for board in aws("cloudwatch").list_dashboards()["DashboardEntries"]]
    names += [schedule["Name"] for schedule in aws("scheduler").list_schedules()["Schedules"]]
    # The bucket for packages belongs to the SAM CLI, which keeps it for the next deployment.
    return [name for name in names if NAME in name]
