//! The binary `darter-bench`: nothing but the way in. What it does lies in the library, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    bench::app::main()
}
