//! The scripts that clients have sent: one cache for the process, and what each thread knows of it, so that running a script takes no lock.
//!
//! What SCRIPT LOAD has brought stays until SCRIPT FLUSH; of what EVAL has brought the 500 that were used last stay. A script that has
//! gone says so itself, and each thread drops it when it comes across it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::scripts::Script;

/// Scripts that EVAL has brought and that are kept.
const EVALUATED_MAX: usize = 500;

/// Scripts that a thread knows; at one more it forgets all, and asks the cache again.
const LOCAL_MAX: usize = 4096;

/// Bytes that a cached script takes beside its source.
const OVERHEAD_BYTES: u64 = 160;

/// The hexadecimal digest by which a script is called, in lower case. None: it cannot be one.
pub fn digest(word: &[u8]) -> Option<[u8; 40]> {
    let mut sha: [u8; 40] = word.try_into().ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}

/// A script of the cache.
pub struct Known {
    pub script: Script,
    /// The clock when it was last used, roughly; only for those that EVAL has brought.
    used: AtomicU64,
    /// SCRIPT LOAD has brought it.
    loaded: AtomicBool,
    /// It is no longer in the cache.
    gone: AtomicBool,
}

/// All scripts of the process.
#[derive(Default)]
pub struct Cache {
    scripts: Mutex<HashMap<[u8; 40], Arc<Known>>>,
    evicted: AtomicU64,
}

/// What INFO tells about scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub scripts: u64,
    /// Sources and what is kept with them.
    pub bytes: u64,
    pub evicted: u64,
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 40], Arc<Known>>> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The script with this digest.
    pub fn get(&self, sha: &[u8; 40]) -> Option<Arc<Known>> {
        self.lock().get(sha).cloned()
    }

    /// Adds a script, at `now` of a clock that never goes back; `loaded` by SCRIPT LOAD it stays. If it is there already, that one is it.
    pub fn add(&self, script: Script, loaded: bool, now: u64) -> Arc<Known> {
        let mut scripts = self.lock();
        if let Some(known) = scripts.get(&script.sha) {
            known.loaded.fetch_or(loaded, Ordering::Relaxed);
            return Arc::clone(known);
        }
        let evaluated = |known: &Known| !known.loaded.load(Ordering::Relaxed);
        if !loaded && scripts.values().filter(|known| evaluated(known)).count() >= EVALUATED_MAX {
            let oldest = scripts.values().filter(|known| evaluated(known));
            let oldest = oldest.min_by_key(|known| known.used.load(Ordering::Relaxed)).cloned();
            if let Some(oldest) = oldest {
                oldest.gone.store(true, Ordering::Relaxed);
                scripts.remove(&oldest.script.sha);
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
        }
        let sha = script.sha;
        let known = Arc::new(Known {
            script,
            used: AtomicU64::new(now),
            loaded: AtomicBool::new(loaded),
            gone: AtomicBool::new(false),
        });
        scripts.insert(sha, Arc::clone(&known));
        known
    }

    /// Forgets all scripts. Those that run go on.
    pub fn flush(&self) {
        for (_, known) in self.lock().drain() {
            known.gone.store(true, Ordering::Relaxed);
        }
    }

    pub fn figures(&self) -> Figures {
        let scripts = self.lock();
        Figures {
            scripts: scripts.len() as u64,
            bytes: scripts.values().map(|known| known.script.source.len() as u64 + OVERHEAD_BYTES).sum(),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }
}

/// A script as one thread knows it.
pub struct Mine {
    pub known: Arc<Known>,
    pub reach: Reach,
}

/// How far a script reaches beyond the keys that it declares: one that often needs all shards while one is taken, and has to run again, begins
/// with all, and tries now and then whether it still must.
///
/// Written by the thread that owns it, and by another one only when the script has travelled there; a count that is lost does no harm.
#[derive(Debug, Default)]
pub struct Reach {
    /// Rises with every run that was in vain, sinks with every other.
    pressure: AtomicU32,
    /// Runs that begin with all shards, from now on.
    all_left: AtomicU32,
    /// How many they were the last time.
    all_length: AtomicU32,
}

/// What a run in vain weighs against one that was not: from about one in nine on all shards are better.
const VAIN_WEIGHT: u32 = 8;
const PRESSURE_MAX: u32 = 24;
const ALL_RUNS_MIN: u32 = 64;
const ALL_RUNS_MAX: u32 = 4096;

impl Reach {
    /// Whether the next run begins with all shards.
    pub fn begins_with_all(&self) -> bool {
        let left = self.all_left.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        self.all_left.store(left - 1, Ordering::Relaxed);
        true
    }

    /// After a run that did not begin with all shards: whether it was in vain for want of all.
    pub fn ran(&self, in_vain: bool) {
        let pressure = self.pressure.load(Ordering::Relaxed);
        if !in_vain {
            if pressure > 0 {
                self.pressure.store(pressure - 1, Ordering::Relaxed);
            }
            return;
        }
        if pressure + VAIN_WEIGHT < PRESSURE_MAX {
            return self.pressure.store(pressure + VAIN_WEIGHT, Ordering::Relaxed);
        }
        let length = (self.all_length.load(Ordering::Relaxed) * 2).clamp(ALL_RUNS_MIN, ALL_RUNS_MAX);
        self.all_length.store(length, Ordering::Relaxed);
        self.all_left.store(length, Ordering::Relaxed);
        // The next try that is in vain is enough.
        self.pressure.store(PRESSURE_MAX - VAIN_WEIGHT, Ordering::Relaxed);
    }
}

/// The scripts that one thread has met.
#[derive(Default)]
pub struct Local {
    by_sha: HashMap<[u8; 40], Arc<Mine>>,
    /// By the hash of their sources, for EVAL.
    by_source: HashMap<u64, Arc<Mine>>,
}

impl Local {
    /// The script with this digest. One hash and one comparison if this thread has met it.
    pub fn by_sha(&mut self, cache: &Cache, sha: &[u8; 40], now: u64) -> Option<Arc<Mine>> {
        if let Some(mine) = self.by_sha.get(sha) {
            if !mine.known.gone.load(Ordering::Relaxed) {
                mine.known.used.store(now, Ordering::Relaxed);
                return Some(Arc::clone(mine));
            }
            self.by_sha.remove(sha);
        }
        let known = cache.get(sha)?;
        known.used.store(now, Ordering::Relaxed);
        Some(self.learn(known))
    }

    /// The script with this source, whose hash is `hash`, if this thread has met it.
    pub fn by_source(&mut self, hash: u64, source: &[u8], now: u64) -> Option<Arc<Mine>> {
        let mine = self.by_source.get(&hash)?;
        if mine.known.gone.load(Ordering::Relaxed) || *mine.known.script.source != *source {
            self.by_source.remove(&hash);
            return None;
        }
        mine.known.used.store(now, Ordering::Relaxed);
        Some(Arc::clone(mine))
    }

    /// Remembers a script of the cache.
    pub fn learn(&mut self, known: Arc<Known>) -> Arc<Mine> {
        if self.by_sha.len() >= LOCAL_MAX {
            self.by_sha.clear();
        }
        let mine = Arc::new(Mine { known, reach: Reach::default() });
        self.by_sha.insert(mine.known.script.sha, Arc::clone(&mine));
        mine
    }

    /// The next EVAL of this source finds it.
    pub fn learn_source(&mut self, hash: u64, mine: &Arc<Mine>) {
        if self.by_source.len() >= LOCAL_MAX {
            self.by_source.clear();
        }
        self.by_source.insert(hash, Arc::clone(mine));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_runs_in_vain_begins_with_all_shards_for_a_while() {
        let reach = Reach::default();
        for _ in 0..100 {
            assert!(!reach.begins_with_all());
            reach.ran(false);
        }
        (0..3).for_each(|_| reach.ran(true));
        assert_eq!((0..200).filter(|_| reach.begins_with_all()).count(), ALL_RUNS_MIN as usize);
        reach.ran(true);
        assert_eq!((0..200).filter(|_| reach.begins_with_all()).count(), 2 * ALL_RUNS_MIN as usize);
        (0..100).for_each(|_| reach.ran(false));
        reach.ran(true);
        assert!(!reach.begins_with_all(), "once is chance");
    }

    #[test]
    fn rare_runs_in_vain_are_chance() {
        let reach = Reach::default();
        for run in 0..1000 {
            assert!(!reach.begins_with_all());
            reach.ran(run % 20 == 0);
        }
    }

    #[test]
    fn digests_are_forty_letters_in_any_case() {
        assert_eq!(digest(&[b'A'; 40]), Some([b'a'; 40]));
        assert_eq!(digest(b"a"), None);
    }

    #[test]
    fn the_script_of_eval_that_was_used_longest_ago_goes() {
        let cache = Cache::default();
        let mut vm = ::scripts::Vm::default();
        let mut local = Local::default();
        let mut add = |source: String, loaded, now| {
            cache.add(vm.check(source.as_bytes()).expect("it compiles"), loaded, now)
        };
        let kept = add("return 'loaded'".into(), true, 0);
        let shas: Vec<_> =
            (0..EVALUATED_MAX as u64).map(|n| add(format!("return {n}"), false, n + 1).script.sha).collect();
        assert!(local.by_sha(&cache, &shas[0], 10_000).is_some(), "used again");
        add("return 'one more'".into(), false, 10_001);
        assert_eq!((cache.figures().scripts, cache.figures().evicted), (EVALUATED_MAX as u64 + 1, 1));
        assert!(local.by_sha(&cache, &shas[0], 10_002).is_some() && cache.get(&shas[1]).is_none());
        assert!(cache.get(&kept.script.sha).is_some());
        cache.flush();
        assert!(local.by_sha(&cache, &shas[0], 10_003).is_none(), "the thread forgets it, too");
        assert_eq!(cache.figures().scripts, 0);
    }
}
