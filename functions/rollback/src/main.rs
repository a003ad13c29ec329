//! The rollback function's bootstrap.

use std::process::ExitCode;

fn main() -> ExitCode {
    glassline_rollback::bootstrap::run()
}
