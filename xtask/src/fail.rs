//! The error of the toolbox: a text for the person at the terminal. Nothing here is handled by kind.

use std::error::Error;

/// What went wrong, as a sentence.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The result of everything in the toolbox that can fail.
pub type Result<T> = std::result::Result<T, Failure>;
