//! The project's toolbox: `cargo xtask <tidy|test|golden|differential|bench>`.
fn main() {}
