//! The finisher function's bootstrap.

use std::process::ExitCode;

fn main() -> ExitCode {
    glassline_finisher::bootstrap::run()
}
