//! What the kernel knows of a process: its processor time and its resident memory.

use std::time::Duration;

use crate::fail::Result;

/// The kernel counts processor time in ticks of 10 ms on every architecture that Linux runs on today.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time of a process so far, user and system, all its threads.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name stands in parentheses and may hold blanks; `utime` and `stime` are fields 14 and 15, the 12th and 13th after it.
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no name in stat")?.1.split_whitespace().collect();
    let field =
        |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).ok_or("stat is too short");
    Ok(Duration::from_millis((field(11)? + field(12)?) * (1000 / TICKS_PER_SECOND)))
}

/// Resident memory of a process in bytes.
pub fn rss(pid: u32) -> Result<u64> {
    status_field(pid, "VmRSS:")
}

/// A field of `/proc/PID/status` that is given in kB, in bytes.
fn status_field(pid: u32, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("no {name}"))?;
    let number = line.split_whitespace().next().ok_or("an empty field")?;
    Ok(number.parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_both() {
        assert!(rss(std::process::id()).unwrap() > 4096);
        cpu_time(std::process::id()).unwrap();
        assert!(cpu_time(0).is_err());
    }
}
