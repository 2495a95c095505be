//! The client's mistake, as the text of an error reply. Our own bugs are assertions, the world's faults are other types.

use std::borrow::Cow;
use std::fmt;

/// An error reply: its text begins with the code, `ERR` unless another one is told (`WRONGTYPE`, `NOAUTH`, ...).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError(Cow<'static, str>);

impl CommandError {
    pub const SYNTAX: Self = Self::fixed("ERR syntax error");
    pub const WRONG_TYPE: Self =
        Self::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub const NOT_AN_INTEGER: Self = Self::fixed("ERR value is not an integer or out of range");
    pub const NOT_A_FLOAT: Self = Self::fixed("ERR value is not a valid float");
    pub const NO_SUCH_KEY: Self = Self::fixed("ERR no such key");
    pub const OUT_OF_RANGE: Self = Self::fixed("ERR value is out of range");
    pub const INDEX_OUT_OF_RANGE: Self = Self::fixed("ERR index out of range");
    pub const OVERFLOW: Self = Self::fixed("ERR increment or decrement would overflow");
    pub const STRING_TOO_LONG: Self =
        Self::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub const DB_OUT_OF_RANGE: Self = Self::fixed("ERR DB index is out of range");
    pub const OUT_OF_MEMORY: Self = Self::fixed("OOM command not allowed when used memory > 'maxmemory'.");

    /// An error whose whole text, code included, is known when Darter is built.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// An error with a text made for the occasion, code included.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Cow::Owned(text.into()))
    }

    /// `ERR invalid expire time in 'set' command`; `command` is written in lower case.
    pub fn invalid_expire(command: &str) -> Self {
        Self::new(format!("ERR invalid expire time in '{}' command", command.to_ascii_lowercase()))
    }

    /// `ERR wrong number of arguments for 'get' command`; `command` is the full name, `client|kill` for a subcommand.
    pub fn arity(command: &str) -> Self {
        Self::new(format!("ERR wrong number of arguments for '{}' command", command.to_ascii_lowercase()))
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CommandError {}
