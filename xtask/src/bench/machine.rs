//! What the figures were measured on and when.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Bench;
use crate::fail::Result;
use crate::shell;

/// The machine, the programs and the commit, as lines of a list.
pub fn describe(bench: &Bench) -> Result<String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = field(&cpuinfo, "model name").unwrap_or("unknown processor");
    let processors = std::thread::available_parallelism()?;
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    let memory_kb: u64 =
        field(&meminfo, "MemTotal").and_then(|m| m.split(' ').next()?.parse().ok()).unwrap_or(0);
    let version = |program: &std::path::Path| {
        shell::output(Command::new(program).arg("--version"))
            .map_or_else(|_| "unknown".into(), |text| text.trim().to_string())
    };
    let git = |words: &[&str]| shell::output(Command::new("git").args(words).current_dir(shell::root()));
    let commit = git(&["rev-parse", "--short", "HEAD"])
        .map_or_else(|_| "unknown".into(), |text| text.trim().to_string());
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_ok_and(|text| !text.is_empty());
    Ok(format!(
        "- machine: {model}, {processors} processors, {} GiB, {}\n- Darter: {}, commit {commit}{}\n- reference: {}\n- load generator: {}\n- rounds: {}{}\n",
        memory_kb >> 20,
        shell::output(Command::new("uname").arg("-sr"))?.trim(),
        version(bench.darter.path()),
        if dirty { " with changes" } else { "" },
        version(bench.valkey.path()),
        version(bench.client.path()),
        bench.rounds,
        if bench.divisor > 1 { format!(", counts divided by {}", bench.divisor) } else { String::new() },
    ))
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find(|line| line.starts_with(name))?.split_once(':').map(|(_, value)| value.trim())
}

/// Today's date in UTC as `2026-01-31`.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Days since 1970 as a date: counts years from March in cycles of 400 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_778), (2026, 11, 21));
    }
}
