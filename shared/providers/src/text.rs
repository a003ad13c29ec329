//! What may be kept of a provider's words. Free text of a provider is never passed on: it may quote the prompt, and for a
//! task there is no prompt at hand to compare it with. Codes and field names are short and have a fixed alphabet.

/// A provider's word if it looks like one (1 to 40 of `a-z 0-9 _ . -`), else `unprintable`.
pub(crate) fn word(text: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    if (1..=40).contains(&text.len()) && text.bytes().all(plain) { text } else { "unprintable" }
}

/// The name of a field that the provider complains about, unless the prompt has it too.
pub(crate) fn field<'a>(name: &'a str, prompt: &str) -> Option<&'a str> {
    (word(name) == name && !prompt.contains(name)).then_some(name)
}

/// A `Retry-After` value, seconds or an HTTP date, in milliseconds from now and at most a day
/// (<https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>).
pub(crate) fn retry_after_ms(value: &str, now_ms: u64) -> Option<u64> {
    const DAY_MS: u64 = 86_400_000;
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit is a long time, not an unreadable one.
        let seconds: u64 = value.parse().unwrap_or(u64::MAX);
        return Some(seconds.saturating_mul(1_000).min(DAY_MS));
    }
    let at = httpdate::parse_http_date(value).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
    Some(at_ms.saturating_sub(now_ms).min(DAY_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms_and_capped() {
        let now_ms = 784_111_777_000; // Sun, 06 Nov 1994 08:49:37 GMT
        for (value, wait_ms) in [
            ("7", Some(7_000)),
            (" 0 ", Some(0)),
            ("86401", Some(86_400_000)),
            ("99999999999999999999999999", Some(86_400_000)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30_000)),
            ("Sunday, 06-Nov-94 08:50:07 GMT", Some(30_000)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 2044 08:50:07 GMT", Some(86_400_000)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after_ms(value, now_ms), wait_ms, "{value}");
        }
    }

    #[test]
    fn words_are_short_and_plain() {
        assert_eq!(word("render_failed"), "render_failed");
        for bad in ["", "Two Words", "a\nb", "café", &"a".repeat(41)] {
            assert_eq!(word(bad), "unprintable");
        }
        assert_eq!(field("params.width", "a fox"), Some("params.width"));
        assert_eq!(field("fox", "a fox"), None);
        assert_eq!(field("a fox\u{1b}[31m", "hen"), None);
    }
}
