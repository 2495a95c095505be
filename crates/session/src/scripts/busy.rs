//! Scripts that have run for longer than `busy-reply-threshold`: while there is one, clients are answered BUSY, and may kill it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use command::CommandError;

/// The error of a script that was killed.
pub const KILLED: &str = "Script killed by user with SCRIPT KILL.";
/// The error of a function that was killed.
pub const FUNCTION_KILLED: &str = "Script killed by user with FUNCTION KILL.";

const BUSY_SCRIPT: CommandError = CommandError::fixed(
    "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
);
const BUSY_FUNCTION: CommandError = CommandError::fixed(
    "BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
);
const UNKILLABLE: CommandError = CommandError::fixed(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or \
     kill the server in a hard way using the SHUTDOWN NOSAVE command.",
);
const NOT_BUSY: CommandError = CommandError::fixed("NOTBUSY No scripts in execution right now.");

/// A script that runs for too long.
pub struct Slow {
    /// The command, if it calls a function.
    function: Option<Running>,
    wrote: AtomicBool,
    kill: AtomicBool,
}

/// A function that runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// FCALL or FCALL_RO with all of its words.
    pub words: Vec<Vec<u8>>,
    pub began: Instant,
}

impl Slow {
    fn is_function(&self) -> bool {
        self.function.is_some()
    }

    /// It has called a command that writes: it can no longer be killed.
    pub fn writes(&self) {
        self.wrote.store(true, Ordering::SeqCst);
    }

    /// Whether somebody wants it to end.
    pub fn is_killed(&self) -> bool {
        self.kill.load(Ordering::SeqCst)
    }
}

/// The scripts of all threads that run for too long.
#[derive(Default)]
pub struct Busy {
    /// Read by every command.
    count: AtomicU32,
    slow: Mutex<Vec<Arc<Slow>>>,
}

impl Busy {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Slow>>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether clients must be answered BUSY.
    #[inline]
    pub fn is_busy(&self) -> bool {
        // Relaxed: a moment more or less does not matter.
        self.count.load(Ordering::Relaxed) != 0
    }

    /// The error of a command that may not run now.
    #[cold]
    pub fn error(&self) -> CommandError {
        if self.lock().first().is_some_and(|slow| slow.is_function()) { BUSY_FUNCTION } else { BUSY_SCRIPT }
    }

    /// A script has run for too long.
    pub fn begin(&self, function: Option<Running>, wrote: bool) -> Arc<Slow> {
        let slow = Arc::new(Slow { function, wrote: AtomicBool::new(wrote), kill: AtomicBool::new(false) });
        let mut all = self.lock();
        all.push(Arc::clone(&slow));
        self.count.store(u32::try_from(all.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        slow
    }

    /// It has ended.
    pub fn end(&self, slow: &Arc<Slow>) {
        let mut all = self.lock();
        all.retain(|known| !Arc::ptr_eq(known, slow));
        self.count.store(u32::try_from(all.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// The first function that runs for too long.
    pub fn function(&self) -> Option<Running> {
        self.lock().iter().find_map(|slow| slow.function.clone())
    }

    /// SCRIPT KILL, or FUNCTION KILL: every such script that has not written ends soon.
    pub fn kill(&self, functions: bool) -> Result<(), CommandError> {
        let all = self.lock();
        let Some(first) = all.first() else { return Err(NOT_BUSY) };
        if !all.iter().any(|slow| slow.is_function() == functions) {
            return Err(if first.is_function() { BUSY_FUNCTION } else { BUSY_SCRIPT });
        }
        let mut killed = 0;
        for slow in all.iter().filter(|slow| slow.is_function() == functions) {
            if !slow.wrote.load(Ordering::SeqCst) {
                slow.kill.store(true, Ordering::SeqCst);
                killed += 1;
            }
        }
        if killed == 0 { Err(UNKILLABLE) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_written_is_not_killed() {
        let busy = Busy::default();
        assert_eq!(busy.kill(false), Err(NOT_BUSY));
        let reader = busy.begin(None, false);
        let writer = busy.begin(None, true);
        assert!(busy.is_busy());
        assert_eq!(busy.error(), BUSY_SCRIPT);
        assert_eq!(busy.kill(true), Err(BUSY_SCRIPT));
        assert_eq!(busy.kill(false), Ok(()));
        assert!(reader.is_killed() && !writer.is_killed());
        busy.end(&reader);
        assert_eq!(busy.kill(false), Err(UNKILLABLE));
        busy.end(&writer);
        assert!(!busy.is_busy());
    }
}
