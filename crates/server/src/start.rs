//! From a configuration to a running server, and to its end.
//!
//! Whatever can go wrong because of the configuration goes wrong before the process becomes a daemon, so that whoever started it sees
//! the error and its exit code.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use reactor::EngineKind;
use session::config::{Config, Engine, Loaded, Supervised, os_text};
use session::listen::Listeners;
use session::serve::{self, Setup};
use session::shared::Start;
use session::{limits, listen, logger};

use crate::daemon::{self, Pidfile};
use crate::{notify, panics, signals};

/// Shards per thread: many, so that two threads seldom meet in one.
const SHARDS_PER_THREAD: u32 = 32;

/// Bounds of the default number of shards.
const SHARDS_MIN: u32 = 64;
const SHARDS_MAX: u32 = 4096;

/// Runs a server until it is stopped. An error that is returned has not been logged.
pub fn run(loaded: Loaded) -> Result<(), Box<dyn Error>> {
    let Loaded { config, notes } = loaded;
    std::env::set_current_dir(&config.dir).map_err(|error| {
        format!("Can't enter the directory '{}': {}", config.dir.display(), os_text(&error))
    })?;
    logger::check_file(&config.logfile).map_err(|error| {
        format!("Can't open the log file '{}': {}", config.logfile.display(), os_text(&error))
    })?;
    let listeners =
        listeners(&config).inspect_err(|error| logger::note_failed_start(&config, &error.to_string()))?;
    let supervised = supervisor(&config);
    if config.daemonize && !supervised {
        daemon::detach()?;
    }
    logger::configure(&config);
    panics::log_them();
    log::info!(
        "Darter version={}, bits={}, pid={}, just started",
        env!("CARGO_PKG_VERSION"),
        usize::BITS,
        std::process::id()
    );
    match &config.file {
        Some(file) => log::info!("Configuration loaded from {}", file.display()),
        None => log::info!("No configuration file: settings are the defaults and those of the command line"),
    }
    notes.iter().for_each(|note| log::info!("{note}"));
    let config = Arc::new(fit_to_system(config));
    let pidfile = Pidfile::write(&config);
    let result = serve(listeners, &config, supervised);
    if !config.unixsocket.as_os_str().is_empty() {
        // It may be gone already, and the next start replaces it.
        let _ = std::fs::remove_file(&config.unixsocket);
    }
    drop(pidfile);
    if result.is_ok() {
        log::info!("Darter is now ready to exit, bye bye...");
    }
    result
}

fn serve(listeners: Listeners, config: &Arc<Config>, supervised: bool) -> Result<(), Box<dyn Error>> {
    let setup = setup(listeners, config, supervised)?;
    let (threads, shards) = (setup.threads, setup.shards);
    let shared = serve::prepare(&setup)?;
    signals::watch(shared)?;
    log::info!("Running mode=standalone, port={}, threads={threads}, shards={shards}", config.port);
    log::warn!(
        "Nothing is saved to disk: this version keeps data in memory only, and loses it when it stops"
    );
    let result = serve::serve(shared, setup);
    if supervised {
        notify::tell("STOPPING=1");
    }
    result
}

fn setup(listeners: Listeners, config: &Arc<Config>, supervised: bool) -> Result<Setup, Box<dyn Error>> {
    let usable = u32::try_from(reactor::affinity::cores().usable())?;
    let threads = config.threads.map_or(usable, Into::into);
    let shards = config.shards.map_or_else(
        || (threads * SHARDS_PER_THREAD).next_power_of_two().clamp(SHARDS_MIN, SHARDS_MAX),
        Into::into,
    );
    let databases = u16::try_from(config.databases).map_err(|_| {
        format!("databases: {} are too many, at most {} can be had", config.databases, u16::MAX)
    })?;
    Ok(Setup {
        threads: u16::try_from(threads)?,
        shards: u16::try_from(shards)?,
        databases,
        io_engine: match config.io_engine {
            Engine::Auto => EngineKind::Auto,
            Engine::Uring => EngineKind::Uring,
            Engine::Epoll => EngineKind::Epoll,
        },
        cores: Vec::new(),
        listeners,
        start: Start {
            run_id: run_id()?,
            unix_ms: reactor::clock::unix_ms(),
            executable: std::env::current_exe()
                .map_or_else(|_| String::new(), |path| path.display().to_string()),
            config_file: config.file.as_ref().map(|file| file.display().to_string()),
        },
        config: Arc::clone(config),
        ready: {
            let config = Arc::clone(config);
            Box::new(move || announce(&config, supervised))
        },
    })
}

fn listeners(config: &Config) -> Result<Listeners, Box<dyn Error>> {
    let listeners = Listeners { tcp: listen::tcp(&config.listen_settings())?, unix: listen::unix(config)? };
    if listeners.tcp.is_empty() && listeners.unix.is_none() {
        return Err("Configured to not listen anywhere, exiting.".into());
    }
    Ok(listeners)
}

/// Whether systemd waits for a word from us.
fn supervisor(config: &Config) -> bool {
    match config.supervised {
        Supervised::No => false,
        Supervised::Systemd | Supervised::Auto => notify::is_wanted(),
    }
}

/// The configuration as far as the system lets it be, with a warning for what it does not.
fn fit_to_system(config: Config) -> Config {
    if let Err(error) = limits::set_oom_score(config.oom_score_adj) {
        log::warn!("oom-score-adj could not be set: {}", os_text(&error));
    }
    let Err((clients, error)) = limits::raise_open_files(config.maxclients) else { return config };
    log::warn!(
        "maxclients {} needs more open files than the system allows ({}): reduced to {clients}. Raise 'ulimit -n' for more.",
        config.maxclients,
        os_text(&error)
    );
    config
        .set(&[(b"maxclients", clients.to_string().as_bytes())], false)
        .expect("a smaller number of clients is a value as well")
}

/// 40 hexadecimal digits that no other run has.
fn run_id() -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 20];
    std::fs::File::open(Path::new("/dev/urandom"))?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Says that clients may come.
fn announce(config: &Config, supervised: bool) {
    if config.port != 0 && !config.bind.is_empty() {
        log::info!("Ready to accept connections tcp");
    }
    if !config.unixsocket.as_os_str().is_empty() {
        log::info!("Ready to accept connections unix");
    }
    if supervised {
        notify::tell("STATUS=Ready to accept connections\nREADY=1\n");
    }
}
