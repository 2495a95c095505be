//! The scenario about BullMQ: jobs done per second from end to end, its scripts included, and what a job costs the server.

use super::{Bench, Goal, Row, Side, median, process};
use crate::fail::Result;
use crate::{apps, shell};

/// Jobs of one run.
const JOBS: u64 = 20_000;
const SIDES: [Side; 2] = [Side::Darter, Side::Valkey];

/// Jobs per second, and microseconds of the server's processor time per job.
fn run(bench: &Bench, side: Side) -> Result<[f64; 2]> {
    let jobs = bench.count(JOBS);
    let server = bench.start(side, 2, &[], None)?;
    let mut command = apps::node(&shell::target().join("apps"), "bullmq-speed.mjs")?;
    command.args([jobs.to_string(), server.address.port().to_string()]);
    let before = process::cpu_time(server.pid())?;
    let printed = shell::output(&mut command)?;
    let spent = process::cpu_time(server.pid())? - before;
    let rate = printed.lines().find_map(|line| line.strip_prefix("jobs/s ")).ok_or("it says no rate")?;
    Ok([rate.parse()?, spent.as_secs_f64() * 1e6 / jobs as f64])
}

/// Two workers in processes of their own, 50 jobs at a time each, and one process that adds the jobs; 2 threads against `--io-threads 2`.
pub fn jobs(bench: &Bench) -> Result<Vec<Row>> {
    let mut figures: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..bench.rounds {
        for (side, into) in SIDES.iter().zip(&mut figures) {
            let both = run(bench, *side)?;
            println!("{side:?}: {:.0} jobs/s, {:.1} us of the server's CPU per job", both[0], both[1]);
            into.iter_mut().zip(both).for_each(|(all, figure)| all.push(figure));
        }
    }
    let row = |at: usize, what: &str, unit: &str, goal| {
        let [darter, valkey] = [median(&figures[0][at]), median(&figures[1][at])];
        Row {
            what: format!("BullMQ, {} jobs, {what}", bench.count(JOBS)),
            darter: format!("{darter:.1}{unit}"),
            valkey: format!("{valkey:.1}{unit}"),
            figure: darter / valkey,
            shown: format!("{:.2} x", darter / valkey),
            goal,
        }
    };
    Ok(vec![
        row(0, "2 threads: jobs/s from end to end", "", Goal::AtLeast(1.3)),
        row(1, "2 threads: CPU us/job", " us", Goal::None),
    ])
}
