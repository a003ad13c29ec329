//! The dispatch function's bootstrap.

use std::process::ExitCode;

fn main() -> ExitCode {
    glassline_dispatch::bootstrap::run()
}
