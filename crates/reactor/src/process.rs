//! What a process asks of the kernel about itself and std does not offer: becoming a daemon, local time. Both only at start or when a
//! line is logged.
#![allow(unsafe_code, reason = "fork and localtime_r")]

use std::io;

/// A moment as the clocks on the walls here show it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct LocalTime {
    /// The year, such as 2026.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
    /// Seconds that the time zone is ahead of UTC.
    pub ahead_of_utc: i32,
}

/// Local time at `unix_s` seconds since 1970, in the time zone of the process.
#[must_use]
pub fn local_time(unix_s: u64) -> LocalTime {
    let time = libc::time_t::try_from(unix_s).unwrap_or(libc::time_t::MAX);
    // SAFETY: all-zero is a valid `tm`.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; localtime_r keeps neither.
    let done = unsafe { libc::localtime_r(&raw const time, &raw mut parts) };
    if done.is_null() {
        // A year that does not fit: nobody's clock shows it.
        return LocalTime::default();
    }
    let small = |value: libc::c_int| u8::try_from(value).unwrap_or(0);
    LocalTime {
        year: parts.tm_year.saturating_add(1900),
        month: small(parts.tm_mon + 1),
        day: small(parts.tm_mday),
        hour: small(parts.tm_hour),
        minute: small(parts.tm_min),
        second: small(parts.tm_sec),
        ahead_of_utc: i32::try_from(parts.tm_gmtoff).unwrap_or(0),
    }
}

/// CPU time that was spent, in microseconds.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuTime {
    /// In the program.
    pub user_us: u64,
    /// In the kernel on its behalf.
    pub system_us: u64,
}

/// CPU time of the whole process so far.
#[must_use]
pub fn cpu_time() -> CpuTime {
    usage(libc::RUSAGE_SELF)
}

/// CPU time of the calling thread so far.
#[must_use]
pub fn thread_cpu_time() -> CpuTime {
    usage(libc::RUSAGE_THREAD)
}

fn usage(who: libc::c_int) -> CpuTime {
    // SAFETY: all-zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable; both kinds exist on every Linux, so the call cannot fail.
    let result = unsafe { libc::getrusage(who, &raw mut usage) };
    assert!(result == 0, "the kernel knows these kinds of usage");
    let us = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    CpuTime { user_us: us(usage.ru_utime), system_us: us(usage.ru_stime) }
}

/// Which of the two processes goes on after a fork.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Side {
    /// The one that was there.
    Parent,
    /// The new one, with copies of all descriptors.
    Child,
}

/// Splits the process in two. Only while it has a single thread: another one would be missing in the child, with its locks held.
pub fn fork() -> io::Result<Side> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, |tasks| tasks.count());
    assert!(threads == 1, "a process forks before it starts threads");
    // SAFETY: the process has one thread, so the child's memory is as consistent as the parent's.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        _ => Ok(Side::Parent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work() {
        let before = (cpu_time(), thread_cpu_time());
        let mut sum = 0_u64;
        while thread_cpu_time().user_us < before.1.user_us + 20_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_time().user_us > before.0.user_us);
    }

    #[test]
    fn local_time_is_utc_moved_by_the_zone() {
        // 2001-09-09 01:46:40 UTC.
        let time = local_time(1_000_000_000);
        let day_s = i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second);
        let utc_s = (day_s - i64::from(time.ahead_of_utc)).rem_euclid(86_400);
        assert_eq!(utc_s, 6400);
        assert_eq!((time.year, time.month), (2001, 9));
        assert!((8..=10).contains(&time.day));
    }
}
