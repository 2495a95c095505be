//! The `darter` binary: configuration, start, one reactor per core, signals.
fn main() {}
