//! Signals: a thread waits for them and asks the server to stop. SIGPIPE is ignored by Rust's start, SIGHUP here.

use std::io;

use session::shared::Shared;
use session::shutdown;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Stops the server at SIGTERM or SIGINT. Another SIGINT, from somebody at a terminal who does not want to wait, ends the process at once;
/// another SIGTERM changes nothing: `timeout` and some supervisors send it to the process and to its group.
pub fn watch(shared: &'static Shared) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("darter-signals".to_owned()).spawn(move || {
        let mut stopping = false;
        for signal in signals.forever() {
            if signal == SIGHUP {
                continue;
            }
            if stopping && signal == SIGTERM {
                continue;
            }
            if stopping {
                log::warn!("You insist... exiting now.");
                std::process::exit(1);
            }
            stopping = true;
            let name = if signal == SIGTERM { "SIGTERM" } else { "SIGINT" };
            log::info!("Received {name}, scheduling shutdown...");
            shutdown::begin(shared);
        }
    })?;
    Ok(())
}
