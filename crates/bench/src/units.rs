//! Figures as people read them: counts, rates, bytes, times, dates. Knows no output in particular.

use std::time::Duration;

/// A count with its thousands apart: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A figure in three digits with a decimal prefix: `950`, `12.3k`, `1.25M`.
pub fn short(figure: f64) -> String {
    scaled(figure, 1000.0, &["", "k", "M", "G", "T"])
}

/// Bytes with a binary prefix: `64 B`, `1.21 KiB`, `3.50 GiB`.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

/// Nanoseconds in the unit that suits them: `850 ns`, `83.2 us`, `1.25 ms`, `2.50 s`.
pub fn nanos(ns: f64) -> String {
    scaled(ns, 1000.0, &[" ns", " us", " ms", " s"])
}

/// Three digits of `figure` divided by `base` as often as names allow.
fn scaled(figure: f64, base: f64, names: &[&str]) -> String {
    let mut rest = figure;
    let mut place = 0;
    // What would be rounded up to four digits belongs to the next unit already.
    while rest.abs() >= 999.5 && place + 1 < names.len() {
        rest /= base;
        place += 1;
    }
    format!("{}{}", three_digits(rest, place > 0), names[place])
}

/// Three digits: fewer where the figure is a whole one and `fraction` does not ask for them.
fn three_digits(figure: f64, fraction: bool) -> String {
    let places = match figure.abs() {
        _ if !fraction && figure.fract() == 0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{figure:.places$}")
}

/// Milliseconds of some nanoseconds with three places, as load generators print them: `0.183`.
pub fn millis(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// A length of time to the second: `42 s`, `1:05`, `1:00:05`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A moment in UTC: `2026-11-21T14:42:05Z`. The calendar is the one of Howard Hinnant's "chrono-compatible low-level date algorithms".
pub fn utc(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!(["1", "999", "1,000", "1,234,567"], [1, 999, 1_000, 1_234_567].map(grouped).map(leak));
        assert_eq!(
            ["0", "950", "12.3k", "1.25M", "999k", "1.00M", "0.25"],
            [0.0, 950.0, 12_345.0, 1_250_000.0, 999_400.0, 999_600.0, 0.25].map(short).map(leak)
        );
        assert_eq!(["64 B", "1.21 KiB", "3.50 GiB"], [64.0, 1240.0, 3.5 * 1073741824.0].map(bytes).map(leak));
        assert_eq!(
            ["850 ns", "83.2 us", "1.25 ms", "2.50 s", "3600 s"],
            [850.0, 83_200.0, 1.25e6, 2.5e9, 3.6e12].map(nanos).map(leak)
        );
        assert_eq!(millis(183_400), "0.183");
        assert_eq!(["42 s", "1:05", "1:00:05"], [42, 65, 3605].map(|s| leak(clock(Duration::from_secs(s)))));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_272_125_999), "2026-11-21T14:42:05Z");
        assert_eq!(utc(1_767_225_599_000), "2025-12-31T23:59:59Z");
    }

    fn leak(text: String) -> &'static str {
        text.leak()
    }
}
