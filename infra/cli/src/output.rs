//! Tables and times for people.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use glassline_protocol::ids::Ms;
use std::io::Write as _;

/// Rows close together, a line under the headings.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// An empty table with these headings.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(headings.to_vec());
    table
}

/// Prints a line on standard output. A reader that has gone away, as `| head` does, ends the command quietly; anything
/// else that stops it is said in one sentence.
pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    let Err(error) = writeln!(std::io::stdout().lock(), "{text}") else { return };
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    eprintln!("glassline: the output can't be written: {error}");
    std::process::exit(1);
}

/// As `println!`, which panics when standard output can't be written.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

/// Prints JSON on a line of its own.
pub(crate) fn json(value: &serde_json::Value) {
    say!("{value}");
}

/// A time as people read it, UTC.
pub(crate) fn time(ms: Ms) -> String {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default()
}

/// A span of time as people read it.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

/// An amount in millionths of the currency unit as people read it: at least two decimals, and as many as it needs.
pub(crate) fn money(micros: u64) -> String {
    let fraction = format!("{:06}", micros % 1_000_000);
    let kept = fraction.trim_end_matches('0').len().max(2);
    format!("{}.{}", micros / 1_000_000, fraction.get(..kept).unwrap_or(&fraction))
}

#[cfg(test)]
mod tests {
    use super::money;

    #[test]
    fn money_has_two_decimals_or_as_many_as_it_needs() {
        let amounts = [0, 40_000, 1_500_000, 2_345_678, 1_000_001, 12_000_000].map(money);
        assert_eq!(amounts, ["0.00", "0.04", "1.50", "2.345678", "1.000001", "12.00"]);
    }
}
