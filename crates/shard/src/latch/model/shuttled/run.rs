//! How a scenario is checked: by which schedulers, how often, from which seed.

use std::panic::AssertUnwindSafe;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// Checks a scenario under random schedules and under such with few, well-placed preemptions (Burckhardt et al. 2010).
pub(super) fn check(iterations: usize, scenario: impl Fn() + Send + Sync + Copy + 'static) {
    let iterations = from_environment("DARTER_MODEL_ITERATIONS").map_or(iterations, |number| number as usize);
    let seed = from_environment("DARTER_MODEL_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64
    });
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        run(RandomScheduler::new_from_seed(seed, iterations), scenario);
        for depth in [2, 3, 5] {
            run(PctScheduler::new_from_seed(seed, depth, iterations / 3), scenario);
        }
    }));
    if let Err(panic) = result {
        eprintln!("Failed. Repeat with DARTER_MODEL_SEED={seed} DARTER_MODEL_ITERATIONS={iterations}");
        std::panic::resume_unwind(panic);
    }
}

/// Checks a small scenario, without chance in it, under all schedules, up to a number of them. Gives the number that was tried.
pub(super) fn check_all(schedules_max: usize, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    run(DfsScheduler::new(Some(schedules_max), false), scenario)
}

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    // It warns that it does not know weak memory; loom does.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario)
}

fn from_environment(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}
