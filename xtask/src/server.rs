//! A server process for a test: started on a free port of 127.0.0.1 with a folder of its own, ended when dropped.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::fail::Result;
use crate::shell;
use crate::wire::Client;

/// A server that does not answer PING after this long has not started.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Another process may take the free port between our looking and the server's binding; then we look again.
const START_ATTEMPTS: u32 = 5;

/// Which server to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// Darter, from this executable.
    Darter(PathBuf),
    /// A reference server: Valkey or Redis.
    Reference(PathBuf),
}

impl Program {
    /// What a command line asks for: the reference with `--reference`, else Darter; and the words that are no options, to choose cases by.
    pub fn chosen(words: &[String]) -> Result<(Self, Vec<&String>)> {
        let program = if words.iter().any(|word| word == "--reference") {
            Self::reference().ok_or("no valkey-server and no redis-server on PATH")?
        } else {
            Self::darter()?
        };
        Ok((program, words.iter().filter(|word| !word.starts_with("--")).collect()))
    }

    /// Darter as end-to-end tests want it (profile `ci`: fast to build, with assertions), built now unless `DARTER` names one.
    pub fn darter() -> Result<Self> {
        Self::darter_of_profile("ci")
    }

    /// Darter built with a profile of the workspace.
    pub fn darter_of_profile(profile: &str) -> Result<Self> {
        if let Some(path) = std::env::var_os("DARTER") {
            let path = std::fs::canonicalize(&path)
                .map_err(|e| format!("DARTER={}: {e}", path.to_string_lossy()))?;
            return Ok(Self::Darter(path));
        }
        shell::run(shell::cargo().args(["build", "--quiet", "--package", "darter", "--profile", profile]))?;
        Ok(Self::Darter(shell::target().join(profile).join("darter")))
    }

    /// A reference server on PATH.
    pub fn reference() -> Option<Self> {
        ["valkey-server", "redis-server"].iter().find_map(|name| shell::on_path(name)).map(Self::Reference)
    }

    /// The executable.
    pub fn path(&self) -> &Path {
        match self {
            Self::Darter(path) | Self::Reference(path) => path,
        }
    }
}

/// A running server.
pub struct Server {
    child: Child,
    dir: PathBuf,
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server with further `--directive value` words and waits until it answers.
    pub fn start<W: AsRef<str>>(program: &Program, words: &[W]) -> Result<Self> {
        Self::start_on(program, words, None)
    }

    /// The same, on these processors only (in the notation of `taskset`).
    pub fn start_on<W: AsRef<str>>(program: &Program, words: &[W], cpus: Option<&str>) -> Result<Self> {
        let mut last = String::new();
        for _ in 0..START_ATTEMPTS {
            match Self::attempt(program, words, cpus)? {
                Ok(server) => return Ok(server),
                Err(log) => last = log,
            }
            if !last.to_ascii_lowercase().contains("in use") {
                break;
            }
        }
        Err(format!("{} did not start:\n{last}", program.path().display()).into())
    }

    /// One attempt on one port; the inner error is the log of a server that ended.
    fn attempt<W: AsRef<str>>(
        program: &Program,
        words: &[W],
        cpus: Option<&str>,
    ) -> Result<std::result::Result<Self, String>> {
        let port = free_port()?;
        let dir = scratch_dir(&format!("server-{port}"))?;
        let log = File::create(dir.join("log"))?;
        let mut command = shell::pinned(program.path(), cpus);
        command.args(["--port", &port.to_string(), "--dir"]).arg(&dir);
        command.args(["--bind", "127.0.0.1", "--save", ""]);
        command.args(words.iter().map(AsRef::as_ref));
        command.current_dir(&dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().map_err(|e| format!("{}: {e}", program.path().display()))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Self { child, dir, address };
        match server.wait_until_it_answers() {
            Ok(()) => Ok(Ok(server)),
            Err(why) => Ok(Err(format!("{why}\n{}", server.log()))),
        }
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("ended at once: {status}").into());
            }
            match TcpStream::connect(self.address) {
                Ok(mut stream) => {
                    // Until the server has closed it: what follows must not find this client in CLIENT LIST.
                    let mut replies = Vec::new();
                    stream.set_read_timeout(Some(START_TIMEOUT))?;
                    stream.write_all(b"PING\r\nQUIT\r\n")?;
                    stream.read_to_end(&mut replies)?;
                    if !replies.is_empty() && !replies.starts_with(b"-LOADING") {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(e) => return Err(e.into()),
            }
            if started.elapsed() > START_TIMEOUT {
                return Err("does not answer".into());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// A new connection.
    pub fn client(&self) -> Result<Client> {
        Client::connect(self.address)
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        let mut text = Vec::new();
        if let Ok(mut file) = File::open(self.dir.join("log")) {
            let _ = file.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// An error with the end of its log when the process is no longer there.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the server ended ({status}):\n{}", tail(&self.log(), 30)).into()),
        }
    }

    /// Waits for a process that was told to end; its exit code.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<Option<i32>> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            if started.elapsed() > limit {
                return Err("the server does not end".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The last lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// A port of 127.0.0.1 that nothing listens on right now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A new, empty folder for one process of one test.
pub fn scratch_dir(name: &str) -> Result<PathBuf> {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let base = RUN.get_or_init(|| shell::target().join("xtask").join(std::process::id().to_string()));
    let dir = base.join(format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir)
}
