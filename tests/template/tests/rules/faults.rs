//! Faults that a template may have, and the sentence by which a rule must find each.

use serde_json::{Value, json};

/// A fault's name, a part of the sentence, and the change that makes it.
type Fault = (&'static str, &'static str, fn(&mut Value));

fn at<'a>(template: &'a mut Value, pointer: &str) -> &'a mut Value {
    template.pointer_mut(&format!("/Resources{pointer}")).unwrap_or_else(|| panic!("{pointer} isn't there"))
}

fn without(template: &mut Value, pointer: &str, key: &str) {
    at(template, pointer).as_object_mut().unwrap().remove(key);
}

/// Statements of a function's role.
fn statements<'a>(template: &'a mut Value, role: &str) -> &'a mut Vec<Value> {
    at(template, &format!("/{role}/Properties/Policies/0/PolicyDocument/Statement")).as_array_mut().unwrap()
}

pub(crate) const FAULTS: &[Fault] = &[
    ("an action too many", "WorkerRole allows dynamodb:DeleteItem on Table, which it doesn't need", |t| {
        statements(t, "WorkerRole")[1]["Action"].as_array_mut().unwrap().push(json!("dynamodb:DeleteItem"));
    }),
    ("an action missing", "FinisherRole doesn't allow s3:PutObject on Assets/*", |t| {
        statements(t, "FinisherRole")[2]["Action"].as_array_mut().unwrap().remove(0);
    }),
    ("all actions", "a wildcard", |t| statements(t, "RollbackRole")[1]["Action"] = json!(["dynamodb:*"])),
    ("all resources", "a wildcard", |t| statements(t, "RollbackRole")[1]["Resource"] = json!("*")),
    ("another's queue", "DispatchRole allows sqs:SendMessage on QaQueue", |t| {
        let last = statements(t, "DispatchRole").last_mut().unwrap();
        last["Resource"].as_array_mut().unwrap().push(json!({"Fn::GetAtt": "QaQueue.Arn"}));
    }),
    ("a managed policy", "WorkerRole has ManagedPolicyArns", |t| {
        at(t, "/WorkerRole/Properties")["ManagedPolicyArns"] =
            json!(["arn:aws:iam::aws:policy/AdministratorAccess"]);
    }),
    ("a policy beside the role", "Worker has Policies beside its role", |t| {
        at(t, "/Worker/Properties")["Policies"] = json!(["AmazonDynamoDBFullAccess"]);
    }),
    ("a shared role", "WorkerRole is shared", |t| {
        *at(t, "/Rollback/Properties/Role") = json!({"Fn::GetAtt": "WorkerRole.Arn"});
    }),
    ("a role for everybody", "RollbackRole may be taken by others", |t| {
        at(t, "/RollbackRole/Properties/AssumeRolePolicyDocument/Statement/0")["Principal"] = json!("*");
    }),
    ("a schedule that may start others", "TickRole allows lambda:InvokeFunction on Worker", |t| {
        statements(t, "TickRole")[0]["Resource"] = json!({"Fn::GetAtt": "Worker.Arn"});
    }),
    ("a function that nobody expected", "Extra isn't in tests/template", |t| {
        let function = at(t, "/Rollback").clone();
        t["Resources"]["Extra"] = function;
    }),
    ("a longer timeout", "RenderQueue is visible again after 600 s, while Worker takes 101 s", |t| {
        *at(t, "/Worker/Properties/Timeout") = json!(101);
    }),
    ("a shorter visibility", "RenderDeadLetters is visible again after 360 s", |t| {
        *at(t, "/RenderDeadLetters/Properties/VisibilityTimeout") = json!(360);
    }),
    ("whole batches fail", "Rollback can't report single messages of RollbackQueue", |t| {
        without(t, "/Rollback/Properties/Events/Rollback/Properties", "FunctionResponseTypes");
    }),
    ("one at a time", "Dispatch may have 1 at once for WakeQueue", |t| {
        *at(t, "/Dispatch/Properties/Events/Wake/Properties/ScalingConfig/MaximumConcurrency") = json!(1);
    }),
    ("one at a time by parameter", "Worker may have 1 at once for RenderQueue", |t| {
        t["Parameters"]["WorkerConcurrency"]["MinValue"] = json!(1);
    }),
    ("no limit", "Finisher may run at any number for FinishQueue", |t| {
        without(t, "/Finisher/Properties/Events/Finish/Properties", "ScalingConfig");
    }),
    ("a batch too large", "Rollback takes 100 messages of FinishDeadLetters", |t| {
        *at(t, "/Rollback/Properties/Events/FinishDead/Properties/BatchSize") = json!(100);
    }),
    ("too little reserved", "Dispatch reserves 2, fewer than WakeQueue", |t| {
        t["Parameters"]["DispatchReserved"]["Default"] = json!(2);
    }),
    ("nothing reserved", "Dispatch reserves no concurrency", |t| {
        without(t, "/Dispatch/Properties", "ReservedConcurrentExecutions");
    }),
    ("a queue without dead letters", "QaQueue has no dead letters and holds none", |t| {
        without(t, "/QaQueue/Properties", "RedrivePolicy");
    }),
    ("dead letters in silence", "no alarm rings for FinishDeadLetters", |t| {
        let alarms = t["Resources"].as_object_mut().unwrap();
        alarms.retain(|_, it| {
            it["Properties"]["Dimensions"][0]["Value"]["Fn::GetAtt"] != "FinishDeadLetters.QueueName"
        });
    }),
    ("an early dead letter", "FinishQueue gives up after 1 receives", |t| {
        *at(t, "/FinishQueue/Properties/RedrivePolicy/maxReceiveCount") = json!(1);
    }),
    ("a forgetful queue", "FinishQueue forgets a message after 3600 s", |t| {
        *at(t, "/FinishQueue/Properties/MessageRetentionPeriod") = json!(3_600);
    }),
    ("forgetful dead letters", "RenderDeadLetters forgets sooner than RenderQueue", |t| {
        *at(t, "/RenderDeadLetters/Properties/MessageRetentionPeriod") = json!(86_400);
    }),
    ("dead letters of another kind", "QaDeadLetters isn't of the kind of QaQueue", |t| {
        without(t, "/QaDeadLetters/Properties", "FifoQueue");
    }),
    ("a readable queue", "WakeQueue isn't encrypted", |t| {
        without(t, "/WakeQueue/Properties", "SqsManagedSseEnabled")
    }),
    ("deduplication by content", "QaQueue's ContentBasedDeduplication", |t| {
        *at(t, "/QaQueue/Properties/ContentBasedDeduplication") = json!(true);
    }),
    ("a variable missing", "Dispatch can't start: GLASSLINE_WAKE_QUEUE_URL is not set", |t| {
        without(t, "/Dispatch/Properties/Environment/Variables", "GLASSLINE_WAKE_QUEUE_URL");
    }),
    (
        "an optional variable missing",
        "Worker reads GLASSLINE_HANDOFF_SECRET_PREVIOUS, which isn't set",
        |t| {
            without(t, "/Worker/Properties/Environment/Variables", "GLASSLINE_HANDOFF_SECRET_PREVIOUS");
        },
    ),
    ("a variable that nobody reads", "Rollback has GLASSLINE_STORAGE, which it never reads", |t| {
        at(t, "/Rollback/Properties/Environment/Variables")["GLASSLINE_STORAGE"] = json!("{}");
    }),
    ("storage that the finisher can't use", "Finisher can't start: GLASSLINE_STORAGE can't be used", |t| {
        let storage = at(t, "/Finisher/Properties/Environment/Variables/GLASSLINE_STORAGE/Fn::Sub");
        *storage = json!(storage.as_str().unwrap().replace("\"bucket\"", "\"buckets\""));
    }),
    (
        "a secret in the template",
        "Worker's GLASSLINE_HANDOFF_SECRET doesn't come from Secrets Manager",
        |t| {
            at(t, "/Worker/Properties/Environment/Variables")["GLASSLINE_HANDOFF_SECRET"] =
                json!("sixteen bytes at least");
        },
    ),
    ("provisioned capacity", "Table/BillingMode", |t| {
        *at(t, "/Table/Properties/BillingMode") = json!("PROVISIONED")
    }),
    ("no way back in time", "Table/PointInTimeRecovery", |t| {
        without(t, "/Table/Properties", "PointInTimeRecoverySpecification");
    }),
    ("an index of everything", "ProjectionType", |t| {
        *at(t, "/Table/Properties/GlobalSecondaryIndexes/0/Projection/ProjectionType") = json!("ALL");
    }),
    ("rows that expire", "Table lets rows expire", |t| {
        at(t, "/Table/Properties")["TimeToLiveSpecification"] =
            json!({"AttributeName": "ttl", "Enabled": true});
    }),
    ("a table that goes with its replacement", "a replacement of Table", |t| {
        without(t, "/Table", "UpdateReplacePolicy")
    }),
    ("a table that anyone deletes", "Table/DeletionProtectionEnabled", |t| {
        without(t, "/Table/Properties", "DeletionProtectionEnabled");
    }),
    ("a public bucket", "RestrictPublicBuckets", |t| {
        *at(t, "/Assets/Properties/PublicAccessBlockConfiguration/RestrictPublicBuckets") = json!(false);
    }),
    ("a readable bucket", "Assets isn't encrypted", |t| without(t, "/Assets/Properties", "BucketEncryption")),
    ("a bucket without TLS", "AssetsPolicy/PolicyDocument/Statement/0/Condition", |t| {
        without(t, "/AssetsPolicy/Properties/PolicyDocument/Statement/0", "Condition");
    }),
    ("parts that stay for ever", "AbortIncompleteMultipartUpload", |t| {
        without(t, "/Assets/Properties", "LifecycleConfiguration");
    }),
    ("logs that stay for ever", "WorkerLogs keeps its lines for ever", |t| {
        without(t, "/WorkerLogs/Properties", "RetentionInDays");
    }),
    ("logs elsewhere", "Rollback logs to `WorkerLogs`", |t| {
        *at(t, "/Rollback/Properties/LoggingConfig/LogGroup") = json!({"Ref": "WorkerLogs"});
    }),
    ("a rare tick", "ScheduleExpression", |t| {
        *at(t, "/Dispatch/Properties/Events/Tick/Properties/ScheduleExpression") = json!("rate(1 hour)");
    }),
    ("an older runtime", "Finisher's Runtime", |t| {
        t["Globals"]["Function"]["Runtime"] = json!("provided.al2")
    }),
];
