//! `ledger`: what every attempt cost, or may have cost.

use crate::args::Options;
use crate::connect::connect;
use crate::failure::Failure;
use crate::output::{self, money, table, time};
use glassline_protocol::ids::{LaneName, Ms};
use glassline_protocol::ledger::{Charge, Ledger, Line, Sum, Twice, Wanted, ledger};
use glassline_protocol::ports::Local as _;
use serde_json::{Value, json};
use std::process::ExitCode;

/// The time that `--since` names, in epoch milliseconds: a date (its midnight, UTC), a time, or a span before now.
pub(crate) fn since(text: &str, now_ms: Ms) -> Result<Ms, Failure> {
    use jiff::{Span, Timestamp, civil::Date, tz::TimeZone};
    let wrong = || {
        Failure::new(format!(
            "`--since {text}` is no time: write a date such as 2026-11-01, a time such as 2026-11-01T12:00:00Z, or a \
             span such as 24h or 7d"
        ))
    };
    let ms = |time: Timestamp| Ms::try_from(time.as_millisecond()).map_err(|_| wrong());
    if let Ok(time) = text.parse::<Timestamp>() {
        return ms(time);
    }
    if let Ok(date) = text.parse::<Date>() {
        return ms(TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0)).map_err(|_| wrong())?);
    }
    let now =
        i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).ok_or_else(wrong)?;
    let span: Span = text.parse().map_err(|_| wrong())?;
    if span.is_negative() {
        return Err(wrong());
    }
    let then = TimeZone::UTC.to_datetime(now).checked_sub(span).map_err(|_| wrong())?;
    ms(TimeZone::UTC.to_timestamp(then).map_err(|_| wrong())?)
}

/// Prints the ledger; fails when an attempt has two accepted tasks.
pub(crate) async fn run(
    options: &Options,
    lane: Option<&str>,
    since_text: Option<&str>,
) -> Result<ExitCode, Failure> {
    let lane = lane.map(LaneName::new).transpose()?;
    let connection = connect(options).await?;
    let since_ms = since_text.map(|text| since(text, connection.ports.now_ms())).transpose()?.unwrap_or(0);
    let rows = connection.ports.store.ledger_rows().await?;
    let bad = rows.bad;
    let ledger = ledger(rows.entries, &Wanted { lane, since_ms });
    if options.json {
        output::json(&as_json(&ledger, &bad));
    } else {
        print(&ledger, &bad);
    }
    Ok(if ledger.twice.is_empty() && bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(ledger: &Ledger, bad: &[String]) {
    if ledger.lines.is_empty() {
        say!("No attempts in that time.");
    } else {
        let mut rows = table(&["job", "attempt", "lane", "when (UTC)", "charge", "price", "task", "note"]);
        for line in &ledger.lines {
            rows.add_row(vec![
                line.job.to_string(),
                line.attempt.to_string(),
                line.lane.to_string(),
                time(line.at_ms),
                line.charge.word().to_owned(),
                line.price_micros.map(money).unwrap_or_default(),
                line.task.as_ref().map(ToString::to_string).unwrap_or_default(),
                line.note.clone().unwrap_or_default(),
            ]);
        }
        say!("{rows}\n");
        let mut sums = table(&["lane", "paid", "at risk", "open", "unbilled"]);
        for (lane, charges) in &ledger.lanes {
            let mut row = vec![lane.to_string()];
            row.extend(Charge::ALL.map(|charge| cell(charges.get(&charge).copied().unwrap_or_default())));
            sums.add_row(row);
        }
        let mut row = vec!["in total".to_owned()];
        row.extend(Charge::ALL.map(|charge| cell(ledger.total(charge))));
        sums.add_row(row);
        say!("{sums}");
    }
    for sentence in bad {
        say!("Left out: {sentence}.");
    }
    if ledger.twice.is_empty() {
        say!("No attempt has more than one accepted task.");
    }
    for Twice { job, attempt, tasks } in &ledger.twice {
        let tasks: Vec<_> = tasks.iter().map(ToString::to_string).collect();
        say!("ACCEPTED TWICE: attempt {attempt} of {job} has the tasks {}.", tasks.join(", "));
    }
}

fn cell(sum: Sum) -> String {
    match (sum.count, sum.unpriced) {
        (0, _) => "–".into(),
        (count, 0) => format!("{} ({count})", money(sum.micros)),
        (count, unpriced) if count == unpriced => format!("no price ({count})"),
        (count, unpriced) => format!("{} ({count}, {unpriced} without a price)", money(sum.micros)),
    }
}

fn sum_json(sum: Sum) -> Value {
    json!({ "count": sum.count, "micros": sum.micros, "unpriced": sum.unpriced })
}

fn line_json(line: &Line) -> Value {
    json!({
        "job": line.job, "attempt": line.attempt, "lane": line.lane, "at_ms": line.at_ms,
        "charge": line.charge.word(), "price_micros": line.price_micros, "task": line.task, "note": line.note,
    })
}

fn as_json(ledger: &Ledger, bad: &[String]) -> Value {
    let sums = |sums: &dyn Fn(Charge) -> Sum| {
        let pairs = Charge::ALL.map(|charge| (charge.word().to_owned(), sum_json(sums(charge))));
        Value::Object(pairs.into_iter().collect())
    };
    let lanes = ledger.lanes.iter().map(|(lane, charges)| {
        (lane.to_string(), sums(&|charge| charges.get(&charge).copied().unwrap_or_default()))
    });
    let twice = ledger
        .twice
        .iter()
        .map(|twice| json!({ "job": twice.job, "attempt": twice.attempt, "tasks": twice.tasks }));
    json!({
        "lines": ledger.lines.iter().map(line_json).collect::<Vec<_>>(),
        "lanes": lanes.collect::<serde_json::Map<_, _>>(),
        "total": sums(&|charge| ledger.total(charge)),
        "accepted_twice": twice.collect::<Vec<_>>(),
        "unreadable": bad,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_takes_dates_times_and_spans() {
        const NOW_MS: Ms = 1_790_000_000_000;
        let ms = |text: &str| since(text, NOW_MS).map_err(|failure| failure.to_string());
        assert_eq!(ms("24h"), Ok(NOW_MS - 86_400_000));
        assert_eq!(ms("7d"), Ok(NOW_MS - 7 * 86_400_000));
        assert_eq!(ms("2026-11-01"), Ok(1_793_491_200_000));
        assert_eq!(ms("2026-11-01T12:00:00Z"), Ok(1_793_534_400_000));
        for wrong in ["", "yesterday", "-3d", "9999999999999d", "2026-13-01", "1969-01-01"] {
            let said = ms(wrong).unwrap_err();
            assert!(said.starts_with(&format!("`--since {wrong}` is no time")), "{said}");
        }
    }
}
