//! A process without a terminal, and the file that tells its number.

use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;

use reactor::process::{Side, fork};
use session::config::{Config, os_text};

/// Where a daemon's number is written when the configuration does not say.
const DEFAULT_PIDFILE: &str = "/var/run/darter.pid";

/// Goes on as a child of nobody, in a session of its own, with standard input and output closed. Before any thread is started.
pub fn detach() -> io::Result<()> {
    leave_to_child()?;
    rustix::process::setsid()?;
    // A session leader could still get a terminal by opening one; its child cannot.
    leave_to_child()?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

fn leave_to_child() -> io::Result<()> {
    match fork()? {
        Side::Parent => std::process::exit(0),
        Side::Child => Ok(()),
    }
}

/// The file with the number of this process; removed when dropped.
pub struct Pidfile(Option<PathBuf>);

impl Pidfile {
    /// Writes the file if one is configured or the process is a daemon. A server that runs matters more than this file.
    pub fn write(config: &Config) -> Self {
        let path = match config.pidfile.as_os_str().is_empty() {
            false => config.pidfile.clone(),
            true if config.daemonize => PathBuf::from(DEFAULT_PIDFILE),
            true => return Self(None),
        };
        // What is relative now must be found again whatever directory the server enters later.
        let path = std::path::absolute(&path).unwrap_or(path);
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Self(Some(path)),
            Err(error) => {
                log::warn!("Failed to write the PID file '{}': {}", path.display(), os_text(&error));
                Self(None)
            }
        }
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Somebody may have removed it; that is what is wanted.
            let _ = std::fs::remove_file(path);
        }
    }
}
