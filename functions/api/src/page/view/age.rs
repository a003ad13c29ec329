//! Times and ages as people read them.

use glassline_protocol::ids::Ms;

/// How ages are written: as of now, or left out, so that two renderings of the same rows are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    now_ms: Option<Ms>,
}

impl Ages {
    /// As of `now_ms`.
    #[must_use]
    pub fn at(now_ms: Ms) -> Self {
        Self { now_ms: Some(now_ms) }
    }

    /// Left out: what is the same a second later gives the same text.
    #[must_use]
    pub fn hidden() -> Self {
        Self { now_ms: None }
    }

    /// Now, in epoch milliseconds; `None` when ages are left out.
    #[must_use]
    pub fn now_ms(self) -> Option<Ms> {
        self.now_ms
    }

    /// The span from `since_ms` until now.
    #[must_use]
    pub fn since(self, since_ms: Ms) -> String {
        self.now_ms.map(|now_ms| span(now_ms.saturating_sub(since_ms))).unwrap_or_default()
    }
}

/// A span of time in its largest unit. The page's script writes the same words.
#[must_use]
pub fn span(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// A time, in UTC: as a machine reads it and as a person does.
#[must_use]
pub fn time(ms: Ms) -> (String, String) {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map(|time| {
        (time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), time.strftime("%-d %b %Y, %H:%M").to_string())
    })
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_one_unit() {
        for (ms, words) in [
            (0, "0 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_199_999, "119 min"),
            (7_200_000, "2 h"),
            (172_800_000, "2 days"),
        ] {
            assert_eq!(span(ms), words, "{ms}");
        }
    }

    #[test]
    fn times_are_in_utc_and_no_number_is_too_large() {
        let (machine, person) = time(1_795_965_840_000);
        assert_eq!((machine.as_str(), person.as_str()), ("2026-11-29T15:24:00Z", "29 Nov 2026, 15:24"));
        assert_eq!(time(u64::MAX), (String::new(), String::new()));
    }

    #[test]
    fn hidden_ages_are_the_same_at_any_time() {
        assert_eq!(Ages::hidden().since(5), "");
        assert_eq!(Ages::at(65_000).since(5_000), "60 s");
        assert_eq!(Ages::at(1).since(5_000), "0 s");
    }
}
