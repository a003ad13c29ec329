//! The worker function's bootstrap.

use std::process::ExitCode;

fn main() -> ExitCode {
    glassline_worker::bootstrap::run()
}
