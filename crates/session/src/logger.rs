//! Where log lines go and what they look like: the three formats of Valkey, to standard output or appended to a file. The file is opened
//! for each line, so that it may be moved away at any time. Not on any hot path.
//!
//! The levels of the `log` crate stand for those of `loglevel`: error and warn are `warning`, info is `notice`, debug is `verbose`, trace
//! is `debug`.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock};

use log::{Level, LevelFilter, Log, Metadata, Record};
use reactor::clock;
use reactor::process::{LocalTime, local_time};

use crate::config::{Config, LogFormat, LogLevel, Timestamp};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// What the configuration says about the log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Style {
    /// Empty: standard output.
    file: PathBuf,
    format: LogFormat,
    timestamp: Timestamp,
}

struct Logger(RwLock<Style>);

/// Logs as the configuration says from now on; called at start and by CONFIG SET.
pub fn configure(config: &Config) {
    static LOGGER: OnceLock<Logger> = OnceLock::new();
    let style = Style::of(config);
    let logger = LOGGER.get_or_init(|| Logger(RwLock::new(style.clone())));
    *logger.0.write().unwrap_or_else(PoisonError::into_inner) = style;
    // Fails from the second call on, when the logger is already set.
    let _ = log::set_logger(logger);
    log::set_max_level(match config.loglevel {
        LogLevel::Debug => LevelFilter::Trace,
        LogLevel::Verbose => LevelFilter::Debug,
        LogLevel::Notice => LevelFilter::Info,
        LogLevel::Warning => LevelFilter::Warn,
        LogLevel::Nothing => LevelFilter::Off,
    });
}

/// Writes why the server does not start into its log file, if it has one: the error that the starter sees may be seen by nobody else.
pub fn note_failed_start(config: &Config, message: &str) {
    if !config.logfile.as_os_str().is_empty() {
        let line = Style::of(config).line(Level::Error, message, clock::unix_ms());
        // The file was opened for a trial before; if it is gone now, the starter's error must do.
        let _ = open(&config.logfile).and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// Whether lines can be appended to this file.
pub fn check_file(file: &Path) -> io::Result<()> {
    if file.as_os_str().is_empty() { Ok(()) } else { open(file).map(|_| ()) }
}

fn open(file: &Path) -> io::Result<std::fs::File> {
    OpenOptions::new().append(true).create(true).open(file)
}

impl Log for Logger {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let style = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let line = style.line(record.level(), &record.args().to_string(), clock::unix_ms());
        // A log that cannot be written has nowhere to complain to. One write, so that lines of several threads do not mix.
        let _ = if style.file.as_os_str().is_empty() {
            io::stdout().lock().write_all(line.as_bytes())
        } else {
            open(&style.file).and_then(|mut file| file.write_all(line.as_bytes()))
        };
    }

    fn flush(&self) {}
}

impl Style {
    fn of(config: &Config) -> Self {
        Self {
            // Relative to the directory that the server works in.
            file: config.logfile.clone(),
            format: config.log_format,
            timestamp: config.log_timestamp_format,
        }
    }

    fn line(&self, level: Level, message: &str, unix_ms: u64) -> String {
        let pid = std::process::id();
        let time = timestamp(self.timestamp, unix_ms);
        let (sigil, name) = match level {
            Level::Error | Level::Warn => ('#', "warning"),
            Level::Info => ('*', "notice"),
            Level::Debug => ('-', "verbose"),
            Level::Trace => ('.', "debug"),
        };
        match self.format {
            LogFormat::Legacy => format!("{pid}:M {time} {sigil} {}\n", escaped(message, false)),
            LogFormat::Logfmt => format!(
                "pid={pid} role=primary timestamp=\"{time}\" level={name} message=\"{}\"\n",
                escaped(message, true)
            ),
            LogFormat::Json => format!(
                "{{\"pid\":{pid},\"role\":\"primary\",\"timestamp\":\"{time}\",\"level\":\"{name}\",\"message\":\"{}\"}}\n",
                escaped(message, true)
            ),
        }
    }
}

/// Keeps a message on its line, whatever a client put into it; `quoted` if it stands between quotes.
fn escaped(message: &str, quoted: bool) -> String {
    let mut text = String::with_capacity(message.len());
    for symbol in message.chars() {
        match symbol {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '"' | '\\' if quoted => text.extend(['\\', symbol]),
            symbol if symbol.is_control() => {
                write!(text, "\\u{:04x}", u32::from(symbol)).expect("a string takes any text");
            }
            symbol => text.push(symbol),
        }
    }
    text
}

fn timestamp(style: Timestamp, unix_ms: u64) -> String {
    let ms = unix_ms % 1000;
    let LocalTime { year, month, day, hour, minute, second, ahead_of_utc } = local_time(unix_ms / 1000);
    match style {
        Timestamp::Milliseconds => unix_ms.to_string(),
        Timestamp::Legacy => {
            let name = MONTHS[usize::from(month.clamp(1, 12)) - 1];
            format!("{day:02} {name} {year} {hour:02}:{minute:02}:{second:02}.{ms:03}")
        }
        Timestamp::Iso8601 => {
            let sign = if ahead_of_utc < 0 { '-' } else { '+' };
            let minutes = ahead_of_utc.abs() / 60;
            let zone = format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60);
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}{zone}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(format: LogFormat) -> Style {
        Style { file: PathBuf::new(), format, timestamp: Timestamp::Milliseconds }
    }

    #[test]
    fn lines_have_the_forms_of_valkey() {
        let pid = std::process::id();
        let line = |format, level| style(format).line(level, "it \"is\"\nso", 1_795_242_694_230);
        assert_eq!(line(LogFormat::Legacy, Level::Info), format!("{pid}:M 1795242694230 * it \"is\"\\nso\n"));
        assert_eq!(
            line(LogFormat::Legacy, Level::Warn).chars().nth(format!("{pid}:M 1795242694230 ").len()),
            Some('#')
        );
        assert_eq!(
            line(LogFormat::Logfmt, Level::Debug),
            format!(
                "pid={pid} role=primary timestamp=\"1795242694230\" level=verbose message=\"it \\\"is\\\"\\nso\"\n"
            )
        );
        assert_eq!(
            line(LogFormat::Json, Level::Error),
            format!(
                "{{\"pid\":{pid},\"role\":\"primary\",\"timestamp\":\"1795242694230\",\"level\":\"warning\",\"message\":\"it \
                 \\\"is\\\"\\nso\"}}\n"
            )
        );
    }

    #[test]
    fn timestamps_have_the_forms_of_valkey() {
        let legacy = timestamp(Timestamp::Legacy, 1_795_242_694_230);
        assert!(legacy.ends_with(":34.230") && legacy.contains(" Nov 2026 "), "{legacy}");
        let iso = timestamp(Timestamp::Iso8601, 1_795_242_694_230);
        assert!(iso.starts_with("2026-11-2") && iso[19..].starts_with(".230") && iso.len() == 29, "{iso}");
    }
}
