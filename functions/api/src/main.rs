//! The api function's bootstrap.

use std::process::ExitCode;

fn main() -> ExitCode {
    glassline_api::bootstrap::run()
}
