//! Automation of the repository.
fn main() {}
