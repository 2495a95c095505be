//! How scripts run: which script a client means, the shards that it begins with, and what it may do inside them. Not the language (crate
//! `scripts`), nor how a script gets further shards and is undone ([`router::script`]).
//!
//! ```text
//!   EVAL, EVALSHA --> script of this thread --> shards of the declared keys --free--> virtual machine of this thread
//!                                                      |                                     | redis.call
//!                                                      +--taken--> travels, runs in          v
//!                                                                  the virtual machine     a command function
//!                                                                  of whoever holds them   in the same shards
//! ```

mod busy;
mod cache;
mod host;
mod run;
mod stand_in;

pub use busy::Busy;
pub use cache::{Cache, Local, Reach, digest};
pub(crate) use run::{By, evaluate, is_script, machine_bytes, queued, write_lines};
