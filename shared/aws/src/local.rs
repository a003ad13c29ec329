//! Time and fresh ids from the operating system: the only place that asks for either.

use glassline_protocol::ids::{Ms, Run, Token};
use glassline_protocol::ports::Local;
use std::time::{SystemTime, UNIX_EPOCH};

/// The system clock and the system's random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLocal;

/// Random lower-case hex digits, two per byte.
#[allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "without randomness no token can be made; better no claim than a guessable one"
)]
fn random_hex<const BYTES: usize>() -> String {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    hex::encode(bytes)
}

impl Local for SystemLocal {
    #[allow(clippy::disallowed_methods, reason = "this is the clock port")]
    fn now_ms(&self) -> Ms {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    #[allow(clippy::expect_used, reason = "32 hex digits are a token")]
    fn fresh_token(&self) -> Token {
        Token::new(random_hex::<16>()).expect("32 hex digits are a token")
    }

    #[allow(clippy::expect_used, reason = "16 hex digits are a run")]
    fn fresh_run(&self) -> Run {
        Run::new(random_hex::<8>()).expect("16 hex digits are a run")
    }

    #[allow(
        clippy::expect_used,
        clippy::disallowed_methods,
        reason = "without randomness no story can be chosen fairly; better none"
    )]
    fn random_below(&self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // The remainder of a number from an uneven range favours small ones; numbers beyond the last whole multiple of
        // the bound are drawn again. That happens less than every second time, so it ends.
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let mut bytes = [0u8; 8];
            getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
            let number = u64::from_le_bytes(bytes);
            if number < limit {
                return number % bound;
            }
        }
    }
}
