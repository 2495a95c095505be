//! What a script asks of the server: the seam between the virtual machine and whoever executes commands.
//!
//! Knows nothing of shards, tables of commands or clients.

use resp::Reply;

/// The server as a script sees it. One object per run.
pub trait Host {
    /// Runs one command (`redis.call`). Appends exactly one reply to `reply`, in the dialect of `reply.proto`; what went
    /// wrong is an error reply. After [`Called::Stop`] nothing more is asked and the script is unwound.
    ///
    /// `words` is never empty; the words may be any bytes.
    fn call(&mut self, words: &[&[u8]], reply: &mut Reply) -> Called;

    /// Whether the client that runs the script may run this command (`redis.acl_check_cmd`). None: there is no such command.
    fn acl_allows(&mut self, words: &[&[u8]]) -> Option<bool>;

    /// A line for the server's log (`redis.log`). Whether the level is wanted is decided here.
    fn log(&mut self, level: Level, message: &[u8]);

    /// Asked every [`crate::POLL_INSTRUCTIONS`] instructions: whether the script may go on.
    fn poll(&mut self) -> Poll;
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// There is one reply.
    Done,
    /// The script must end now, without a reply: it will be run again, for example.
    Stop,
}

/// Whether a script may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// It may.
    Go,
    /// It must end now; whoever runs it knows why, and what to reply.
    Stop,
    /// It must end now, and this is its error ("Script killed by user with SCRIPT KILL.").
    Kill(&'static str),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// With a value: it is the reply.
    Done,
    /// With an error: it is the reply.
    Failed,
    /// The host said stop: there is no reply.
    Stopped,
}

/// How urgent a log line is; the numbers are those of `redis.LOG_DEBUG` and the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// `LOG_DEBUG`
    Debug = 0,
    /// `LOG_VERBOSE`
    Verbose = 1,
    /// `LOG_NOTICE`
    Notice = 2,
    /// `LOG_WARNING`
    Warning = 3,
}
