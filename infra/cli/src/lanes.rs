//! `lanes add`: a lane of a stack that isn't told of lanes at its start, as one in AWS.

use crate::args::Options;
use crate::connect::connect;
use crate::failure::Failure;
use crate::output;
use glassline_protocol::ids::LaneName;
use glassline_protocol::intake::create_lane;
use glassline_protocol::ports::Store as _;
use glassline_protocol::row::LaneRow;
use serde_json::json;
use std::process::ExitCode;

/// Adds a lane with its slots. One that is there must be the same: a different one is said, not overwritten.
pub(crate) async fn add(
    options: &Options,
    name: &str,
    capacity: u32,
    starts_per_minute: Option<u32>,
) -> Result<ExitCode, Failure> {
    let name = LaneName::new(name)?;
    let connection = connect(options).await?;
    let kept = |row: &LaneRow| (row.capacity, row.starts_per_minute) != (capacity, starts_per_minute);
    if connection.ports.lane(&name).await?.as_ref().is_some_and(kept) {
        return Err(Failure::new(format!(
            "lane {name} is there already, with other settings; it keeps them"
        )));
    }
    let row = LaneRow { starts_per_minute, ..LaneRow::new(name.clone(), capacity) };
    create_lane(&connection.ports, row).await?;
    if options.json {
        output::json(&json!({ "lane": name }));
    } else {
        say!("Lane {name} is there.");
    }
    Ok(ExitCode::SUCCESS)
}
