//! What the operating system grants the process: descriptors for `maxclients`, its place when memory runs out.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::OomScore;

/// Descriptors that are not clients: listeners, rings, wake-ups, files.
const DESCRIPTORS_RESERVED: u64 = 32;

/// Raises the limit of open files so that `maxclients` fit. Gives the number of clients that do fit, and why not all.
pub fn raise_open_files(maxclients: u32) -> Result<(), (u32, io::Error)> {
    let wanted = u64::from(maxclients) + DESCRIPTORS_RESERVED;
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return Ok(()) };
    // Raising the hard limit needs a privilege, raising the soft one up to it does not.
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit { current: Some(wanted), maximum: limit.maximum.map(|maximum| maximum.max(wanted)) },
    );
    let Err(error) = raised else { return Ok(()) };
    let best = limit.maximum.unwrap_or(wanted).min(wanted);
    let granted = match setrlimit(Resource::Nofile, Rlimit { current: Some(best), maximum: limit.maximum }) {
        Ok(()) => best,
        Err(_) => current,
    };
    let clients = granted.saturating_sub(DESCRIPTORS_RESERVED).max(1);
    Err((u32::try_from(clients).unwrap_or(u32::MAX), error.into()))
}

/// Tells the kernel how soon this process should die when memory runs out.
pub fn set_oom_score(score: OomScore) -> io::Result<()> {
    static STARTED_WITH: OnceLock<i32> = OnceLock::new();
    const FILE: &str = "/proc/self/oom_score_adj";
    let read = || std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    if score == OomScore::Untouched && STARTED_WITH.get().is_none() {
        return Ok(());
    }
    let started_with = *STARTED_WITH.get_or_init(read);
    let value = match score {
        OomScore::Untouched => started_with,
        OomScore::Relative(more) => started_with + more,
        OomScore::Absolute(value) => value,
    };
    std::fs::write(FILE, value.clamp(-1000, 1000).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_clients_are_promised_than_fit() {
        assert!(raise_open_files(1).is_ok());
        match raise_open_files(u32::MAX) {
            Ok(()) => {
                assert!(getrlimit(Resource::Nofile).current.is_none_or(|now| now >= u64::from(u32::MAX)))
            }
            Err((clients, _)) => {
                let now = getrlimit(Resource::Nofile).current.unwrap();
                assert_eq!(u64::from(clients), now - DESCRIPTORS_RESERVED);
            }
        }
    }
}
