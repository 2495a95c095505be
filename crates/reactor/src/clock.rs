//! Clocks: wall time for deadlines, monotonic time for timers, and a cheap tick counter for measuring commands. Callers read the wall
//! clock once per turn and hand it down; nothing here caches.
#![allow(unsafe_code, reason = "clock_gettime and the time stamp counter")]

use std::sync::OnceLock;

/// Milliseconds since 1970-01-01 UTC; may jump.
#[must_use]
pub fn unix_ms() -> u64 {
    let time = read(libc::CLOCK_REALTIME);
    time.0 * 1000 + time.1 / 1_000_000
}

/// Microseconds since 1970-01-01 UTC; may jump.
#[must_use]
pub fn unix_us() -> u64 {
    let time = read(libc::CLOCK_REALTIME);
    time.0 * 1_000_000 + time.1 / 1000
}

/// Microseconds since some fixed point; never goes back.
#[must_use]
pub fn monotonic_us() -> u64 {
    let time = read(libc::CLOCK_MONOTONIC);
    time.0 * 1_000_000 + time.1 / 1000
}

/// Nanoseconds since some fixed point; never goes back.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = read(libc::CLOCK_MONOTONIC);
    time.0 * 1_000_000_000 + time.1
}

/// Microseconds of CPU time, user and system, that the calling thread has used.
#[must_use]
pub fn thread_cpu_us() -> u64 {
    let time = read(libc::CLOCK_THREAD_CPUTIME_ID);
    time.0 * 1_000_000 + time.1 / 1000
}

/// Seconds and nanoseconds of one of the kernel's clocks.
fn read(clock: libc::clockid_t) -> (u64, u64) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable; the clocks used here exist on every Linux, so the call cannot fail.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert!(result == 0, "the kernel has these clocks");
    // Times before 1970 read as 1970.
    (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// A point on the tick scale. About 10 ns to read where the time stamp counter can be trusted, else a clock read. Meaningful only as a
/// difference within one process.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    if scale().is_counter { counter() } else { monotonic_ns() }
}

/// A difference of [`ticks`] in nanoseconds.
#[inline]
#[must_use]
pub fn ticks_to_ns(ticks: u64) -> u64 {
    let scale = scale();
    if scale.is_counter {
        ((u128::from(ticks) * u128::from(scale.ns_per_tick_32)) >> 32) as u64
    } else {
        ticks
    }
}

/// The reverse of [`ticks_to_ns`], to turn a limit into ticks once.
#[must_use]
pub fn ns_to_ticks(ns: u64) -> u64 {
    let scale = scale();
    if scale.is_counter { ((u128::from(ns) << 32) / u128::from(scale.ns_per_tick_32)) as u64 } else { ns }
}

/// What a tick is.
struct Scale {
    is_counter: bool,
    /// Nanoseconds per tick, times 2^32.
    ns_per_tick_32: u64,
}

/// The scale, found at the first use (which takes 2 ms: call [`ticks`] once at start).
#[inline]
fn scale() -> &'static Scale {
    static SCALE: OnceLock<Scale> = OnceLock::new();
    SCALE.get_or_init(|| {
        let ns_per_tick_32 = if counter_is_trusted() { calibrate() } else { None };
        Scale { is_counter: ns_per_tick_32.is_some(), ns_per_tick_32: ns_per_tick_32.unwrap_or(1 << 32) }
    })
}

/// How long the counter is compared with the clock: a clock read is off by less than 100 ns, so 2 ms give 1 part in 10,000.
const CALIBRATION_NS: u64 = 2_000_000;

/// Measures nanoseconds per tick, times 2^32. `None` if the result is absurd (below 50 MHz, above 20 GHz).
fn calibrate() -> Option<u64> {
    let (ns_start, ticks_start) = (monotonic_ns(), counter());
    let (mut ns, mut ticks) = (ns_start, ticks_start);
    while ns - ns_start < CALIBRATION_NS {
        (ns, ticks) = (monotonic_ns(), counter());
    }
    let ticks = ticks.checked_sub(ticks_start).filter(|ticks| *ticks > 0)?;
    let scaled = (u128::from(ns - ns_start) << 32) / u128::from(ticks);
    u64::try_from(scaled).ok().filter(|scaled| ((1 << 32) / 20..=20 * (1 << 32)).contains(scaled))
}

/// Whether the counter runs at one rate on all cores and in all power states, and the kernel has not found fault with it.
#[cfg(target_arch = "x86_64")]
fn counter_is_trusted() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let invariant = __cpuid(0x8000_0000).eax >= POWER_LEAF && __cpuid(POWER_LEAF).edx & INVARIANT != 0;
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match source.as_deref().map(str::trim) {
        // The kernel itself keeps time by the counter. Hypervisors often hide the CPU's own word on it.
        Ok("tsc") => true,
        // Where the kernel keeps time by one of these it has distrusted the counter.
        Ok("hpet" | "acpi_pm" | "refined-jiffies" | "jiffies" | "pit") => false,
        _ => invariant,
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and Linux lets programs use it unless told otherwise by the program itself.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_trusted() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_agree_with_the_clock() {
        let (ticks_start, ns_start) = (ticks(), monotonic_ns());
        while monotonic_ns() - ns_start < 20_000_000 {
            std::hint::spin_loop();
        }
        let (measured, real) = (ticks_to_ns(ticks() - ticks_start), monotonic_ns() - ns_start);
        // Generous: the thread may lose the CPU between the two reads.
        assert!(measured.abs_diff(real) < real / 4, "{measured} ns by ticks, {real} ns by the clock");
        let there_and_back = ticks_to_ns(ns_to_ticks(1_000_000_000));
        assert!(there_and_back.abs_diff(1_000_000_000) < 100, "{there_and_back}");
    }

    #[test]
    fn wall_time_is_now() {
        let theirs = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert!(u128::from(unix_ms()).abs_diff(theirs.as_millis()) < 10_000);
        assert!(unix_us() / 1000 >= unix_ms() - 10_000);
        let before = monotonic_us();
        assert!(monotonic_us() >= before);
    }
}
