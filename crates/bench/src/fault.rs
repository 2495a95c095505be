//! What keeps a run from being had: one line that says what is wrong and what to do about it. Not the server's error replies, which are
//! counted and shown.

use std::fmt;

/// Why there are no figures: bad options, a server that cannot be used, a connection that broke. The program prints it and exits with 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);

/// What can fail for a reason that the person at the keyboard has to deal with.
pub type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    /// `message` is one line without a full stop; line ends in it are turned into spaces.
    pub fn new(message: impl Into<String>) -> Fault {
        let message: String = message.into();
        Fault(if message.contains(['\r', '\n']) { message.replace(['\r', '\n'], " ") } else { message })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}
