//! The commands, one file per family: rows, functions, tests.
