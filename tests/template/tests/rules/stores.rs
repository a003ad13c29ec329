//! Table, bucket, logs and schedule.

use super::Findings;
use glassline_template::{Template, target};
use serde_json::{Value, json};

/// A property that must have a value: resource, pointer below its properties, value.
fn wanted() -> Vec<(&'static str, &'static str, Value)> {
    let day = json!(1);
    vec![
        ("Table", "/BillingMode", json!("PAY_PER_REQUEST")),
        ("Table", "/DeletionProtectionEnabled", json!({"Ref": "DeletionProtection"})),
        ("Table", "/PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled", json!(true)),
        ("Table", "/SSESpecification/SSEEnabled", json!(true)),
        ("Table", "/GlobalSecondaryIndexes/0/IndexName", json!("queue")),
        ("Table", "/GlobalSecondaryIndexes/0/Projection/ProjectionType", json!("KEYS_ONLY")),
        ("Table", "/KeySchema/0", json!({"AttributeName": "pk", "KeyType": "HASH"})),
        ("Table", "/KeySchema/1", json!({"AttributeName": "sk", "KeyType": "RANGE"})),
        ("Assets", "/OwnershipControls/Rules/0/ObjectOwnership", json!("BucketOwnerEnforced")),
        ("Assets", "/PublicAccessBlockConfiguration/BlockPublicAcls", json!(true)),
        ("Assets", "/PublicAccessBlockConfiguration/BlockPublicPolicy", json!(true)),
        ("Assets", "/PublicAccessBlockConfiguration/IgnorePublicAcls", json!(true)),
        ("Assets", "/PublicAccessBlockConfiguration/RestrictPublicBuckets", json!(true)),
        ("Assets", "/LifecycleConfiguration/Rules/0/Status", json!("Enabled")),
        ("Assets", "/LifecycleConfiguration/Rules/0/AbortIncompleteMultipartUpload/DaysAfterInitiation", day),
        ("AssetsPolicy", "/PolicyDocument/Statement/0/Effect", json!("Deny")),
        (
            "AssetsPolicy",
            "/PolicyDocument/Statement/0/Condition",
            json!({"Bool": {"aws:SecureTransport": "false"}}),
        ),
        ("AssetsPolicy", "/PolicyDocument/Statement/0/Action", json!("s3:*")),
        ("AssetsPolicy", "/PolicyDocument/Statement/0/Principal", json!("*")),
        ("AssetsPolicy", "/PolicyDocument/Statement/1", Value::Null),
        ("Dispatch", "/Events/Tick/Type", json!("ScheduleV2")),
        ("Dispatch", "/Events/Tick/Properties/ScheduleExpression", json!("rate(1 minute)")),
        ("Dispatch", "/Events/Tick/Properties/RoleArn", json!({"Fn::GetAtt": "TickRole.Arn"})),
    ]
}

pub(crate) fn rule(template: &Template) -> Findings {
    let mut found = Findings::new();
    for (resource, pointer, value) in wanted() {
        let is = template.properties(resource).pointer(pointer).unwrap_or(&Value::Null);
        if *is != value {
            found.push(format!("{resource}{pointer} is {is} instead of {value}"));
        }
    }
    let encryption =
        &template.properties("Assets")["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
    if encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"].is_null() {
        found.push("Assets isn't encrypted".to_owned());
    }
    if !template.properties("Table")["TimeToLiveSpecification"].is_null() {
        found.push("Table lets rows expire, and no row may".to_owned());
    }
    for name in ["Table", "Assets"] {
        if template.0["Resources"][name]["UpdateReplacePolicy"] != "Retain" {
            found.push(format!("a replacement of {name} would throw its contents away"));
        }
    }
    for (name, group) in template.resources("AWS::Logs::LogGroup") {
        if group["Properties"]["RetentionInDays"] != json!({"Ref": "LogRetentionDays"}) {
            found.push(format!("{name} keeps its lines for ever"));
        }
    }
    for name in template.functions().into_keys() {
        let logs = target(&template.properties(&name)["LoggingConfig"]["LogGroup"]);
        if logs != format!("{name}Logs") || template.0["Resources"][&logs].is_null() {
            found.push(format!("{name} logs to `{logs}`, not to a group of its own"));
        }
        if template.0["Outputs"][&logs].is_null() {
            found.push(format!("no output says where {name} logs"));
        }
    }
    found
}
