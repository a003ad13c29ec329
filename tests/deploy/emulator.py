"""MiniStack as this test needs it: its gaps are mended here, so that the template stays as AWS wants it.

Runs in the emulator's own virtual environment, as MiniStack pins the AWS SDK. Its own variables say where it listens.
Each mend says what AWS does; what isn't mended is listed in ARCHITECTURE.md, section 17.
"""

import json
import sys

from ministack import app
from ministack.core import iam_actions
from ministack.services import cloudwatch, lambda_svc
from ministack.services.cloudformation import stacks

# Batches are not actions of IAM: AWS asks for the permission of the single operation.
_SINGLE = {
    "sqs:SendMessageBatch": "sqs:SendMessage",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
}


def _number_from_parameter() -> None:
    """CloudFormation makes a number of `MaximumConcurrency: !Ref AParameter`; the emulator keeps its text and fails."""
    concurrency = lambda_svc._sqs_esm_concurrency

    def counted(esm, *args, **kwargs):
        scaling = esm.get("ScalingConfig") or {}
        if isinstance(scaling.get("MaximumConcurrency"), str):
            scaling["MaximumConcurrency"] = int(scaling["MaximumConcurrency"])
        return concurrency(esm, *args, **kwargs)

    lambda_svc._sqs_esm_concurrency = counted


def _permissions_of_batches() -> None:
    extract = iam_actions.extract_iam_action

    def extracted(*args, **kwargs):
        action = extract(*args, **kwargs)
        return _SINGLE.get(action, action)

    iam_actions.extract_iam_action = extracted


def _loopback_counts_as_tls() -> None:
    """The bucket's policy refuses plain http, and the emulator's loopback address stands for AWS's https."""
    pin = app.pin_request_origin
    app.pin_request_origin = lambda source, _secure: pin(source, True)


def _record_embedded_metrics(text: str) -> None:
    """Lines in CloudWatch's embedded metric format become metrics, one for each set of dimensions."""
    for line in text.splitlines():
        if '"CloudWatchMetrics"' not in line:
            continue
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        for directive in found["_aws"]["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                dimensions = {name: found[name] for name in names}
                for metric in directive["Metrics"]:
                    unit = metric.get("Unit", "None")
                    values = found[metric["Name"]]
                    for value in values if isinstance(values, list) else [values]:
                        cloudwatch.record_metric(directive["Namespace"], metric["Name"], value, unit, dimensions)


def _logs_of_functions() -> None:
    """What AWS does with every invocation, whoever caused it. Lambda counts it and keeps what the function printed,
    even if it died at its start; CloudWatch counts the metrics that are embedded in the log.
    """
    emit, run = lambda_svc._emit_lambda_logs, lambda_svc._execute_function_provided_warm

    def emitted(func, request_id, log_text, error, duration_ms, **kwargs):
        _record_embedded_metrics(log_text or "")
        # The emulator counts only those that come by the Invoke API.
        lambda_svc._emit_lambda_metrics(func["config"]["FunctionName"], duration_ms, error, False)
        return emit(func, request_id, log_text, error, duration_ms, **kwargs)

    def executed(func, event, request_id):
        result = run(func, event, request_id)
        said = (result.get("body") or {}) if result.get("error") else {}
        message = said.get("errorMessage", "") if isinstance(said, dict) else ""
        # The emulator puts what the process printed into the error and leaves the log empty.
        if not result.get("log") and "during init" in message:
            result["log"] = message
        return result

    lambda_svc._emit_lambda_logs = emitted
    lambda_svc._execute_function_provided_warm = executed


def _secrets_by_values() -> None:
    """CloudFormation reads a secret again when a property of its resource changes, as a description does that names a
    parameter. The emulator compares the template's text, in which the parameter's name stays the same.
    """
    resolve = stacks._resolve_dynamic_references

    def resolved(value, previous=None, reuse_ssm=False, reuse_secrets=False):
        # `reuse_ssm` says that neither the template nor any parameter has changed.
        return resolve(value, previous, reuse_ssm, reuse_secrets and reuse_ssm)

    stacks._resolve_dynamic_references = resolved


def serve() -> None:
    """Mends the emulator, then runs it until it is told to end."""
    for mend in (
        _number_from_parameter,
        _permissions_of_batches,
        _loopback_counts_as_tls,
        _logs_of_functions,
        _secrets_by_values,
    ):
        mend()
    # Its own command line isn't ours.
    sys.argv = ["ministack"]
    app.main()


if __name__ == "__main__":
    serve()
