//! What eviction knows about an entry's use: three bytes in the entry, kept only while the policy needs them.
//!
//! HOT: on every read under an LRU or LFU policy.
//!
//! ```text
//!   LRU   [ time of the last use, 24 bits, steps of 250 ms: wraps after 48 days ]
//!   LFU   [ minutes of the last decay, 16 bits | logarithmic counter, 8 bits ]
//! ```
//!
//! The logarithmic counter is Redis's: it grows with probability 1 / ((counter - 5) * lfu-log-factor + 1) and loses one for every
//! `lfu-decay-time` minutes without use. An entry without metadata counts as used least.

use stdx::rng::Rng;

use crate::settings::{Policy, Settings};

/// Milliseconds of one step of the LRU clock.
const LRU_STEP_MS: u64 = 250;

/// Steps after which the LRU clock wraps.
const LRU_MASK: u64 = (1 << 24) - 1;

/// Counter of a new entry, so that it is not evicted before it can be used again.
const LFU_INITIAL: u8 = 5;

/// Three bytes of an entry.
pub type Access = [u8; 3];

/// The metadata of a new entry; none if the policy needs none.
#[inline]
pub fn new(policy: Policy, now_ms: u64) -> Option<Access> {
    match policy {
        Policy::AllkeysLru | Policy::VolatileLru => Some(lru(now_ms)),
        Policy::AllkeysLfu | Policy::VolatileLfu => Some(lfu(now_ms, LFU_INITIAL)),
        _ => None,
    }
}

/// The metadata after another use; `before` is what the entry has, if anything.
#[inline]
pub fn used(settings: &Settings, before: Option<Access>, now_ms: u64, rng: &mut Rng) -> Option<Access> {
    match settings.policy {
        Policy::AllkeysLru | Policy::VolatileLru => Some(lru(now_ms)),
        Policy::AllkeysLfu | Policy::VolatileLfu => {
            let counter =
                before.map_or(LFU_INITIAL, |before| decayed(before, now_ms, settings.lfu_decay_time));
            Some(lfu(now_ms, grown(counter, settings.lfu_log_factor, rng)))
        }
        _ => None,
    }
}

/// Milliseconds since the last use, by the LRU clock.
pub fn idle_ms(access: Access, now_ms: u64) -> u64 {
    let then = u64::from(u32::from_le_bytes([access[0], access[1], access[2], 0]));
    ((now_ms / LRU_STEP_MS).wrapping_sub(then) & LRU_MASK) * LRU_STEP_MS
}

/// The LFU counter, less what it has lost since the last use.
pub fn frequency(access: Access, now_ms: u64, decay_time_minutes: u32) -> u8 {
    decayed(access, now_ms, decay_time_minutes)
}

fn lru(now_ms: u64) -> Access {
    let [a, b, c, ..] = ((now_ms / LRU_STEP_MS) & LRU_MASK).to_le_bytes();
    [a, b, c]
}

fn lfu(now_ms: u64, counter: u8) -> Access {
    let [low, high] = minutes(now_ms).to_le_bytes();
    [low, high, counter]
}

fn minutes(now_ms: u64) -> u16 {
    (now_ms / 60_000) as u16
}

fn decayed(access: Access, now_ms: u64, decay_time_minutes: u32) -> u8 {
    if decay_time_minutes == 0 {
        return access[2];
    }
    let elapsed = minutes(now_ms).wrapping_sub(u16::from_le_bytes([access[0], access[1]]));
    let periods = u32::from(elapsed) / decay_time_minutes;
    access[2].saturating_sub(u8::try_from(periods).unwrap_or(u8::MAX))
}

fn grown(counter: u8, log_factor: u32, rng: &mut Rng) -> u8 {
    let above = u64::from(counter.saturating_sub(LFU_INITIAL));
    if counter < u8::MAX && rng.one_in(above * u64::from(log_factor) + 1) { counter + 1 } else { counter }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 24 * 3600 * 1000;

    #[test]
    fn idle_time_survives_the_wrap_of_the_clock() {
        let wrap_ms = (LRU_MASK + 1) * LRU_STEP_MS;
        let then = wrap_ms * 7 - 1000;
        let access = new(Policy::AllkeysLru, then).expect("the policy keeps metadata");
        assert_eq!(idle_ms(access, then), 0);
        assert_eq!(idle_ms(access, then + 2000), 2000);
        assert_eq!(idle_ms(access, then + 30 * DAY_MS), 30 * DAY_MS);
    }

    #[test]
    fn the_counter_grows_ever_slower_and_decays() {
        let settings = Settings { policy: Policy::AllkeysLfu, ..Settings::default() };
        let mut rng = Rng::new(1);
        let now_ms = 1000 * DAY_MS;
        let mut access = new(settings.policy, now_ms);
        for _ in 0..1_000 {
            access = used(&settings, access, now_ms, &mut rng);
        }
        let after_a_thousand = frequency(access.expect("kept"), now_ms, 1);
        // Valkey documents 18 for 1,000 hits at factor 10; the draw spreads a little around it.
        assert!((14..=23).contains(&after_a_thousand), "{after_a_thousand}");
        for _ in 0..99_000 {
            access = used(&settings, access, now_ms, &mut rng);
        }
        let after_a_hundred_thousand = frequency(access.expect("kept"), now_ms, 1);
        assert!((125..=165).contains(&after_a_hundred_thousand), "{after_a_hundred_thousand}");
        let decayed = frequency(access.expect("kept"), now_ms + 10 * 60_000, 1);
        assert_eq!(decayed, after_a_hundred_thousand - 10);
        assert_eq!(frequency(access.expect("kept"), now_ms + 10 * 60_000, 0), after_a_hundred_thousand);
    }

    #[test]
    fn other_policies_keep_nothing() {
        assert_eq!(new(Policy::NoEviction, 1), None);
        assert_eq!(new(Policy::VolatileTtl, 1), None);
    }
}
