//! The glassline command.
fn main() {}
