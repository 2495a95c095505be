//! Records made up for tests of the outputs: no run has produced them, and every figure in them can be told in advance.

use std::time::Duration;

use crate::record::{Client, Counts, Run, Second, ServerSample, Setup, Target, histogram};
use hdrhistogram::serialization::V2DeflateSerializer;

/// A run of SET and GET over `seconds` seconds, the last of them half as long: SET 1000 times per second at about 1 ms, GET 3000 times at
/// about 0.5 ms, with two errors and some misses. In an open loop the corrected figures are twice the uncorrected ones.
pub fn run(target: &str, seconds: usize, open_loop: bool) -> Run {
    let setup = Setup {
        command_line: "darter-bench --ratio 1:3 -d 64".into(),
        workload: "SET:GET 1:3".into(),
        threads: 2,
        connections: 50,
        pipeline: 16,
        data_size: "64".into(),
        keys: 1_000_000,
        key_distribution: "uniform".into(),
        seed: 7,
        rate: open_loop.then_some(4000.0),
        duration: Some(Duration::from_secs(seconds as u64)),
        ..Setup::default()
    };
    let target =
        Target { name: target.into(), address: "127.0.0.1:6379".into(), version: "valkey 9.1.2".into() };
    let mut run = Run::new(setup, target, "mixed", &["SET".into(), "GET".into()], &[]);
    run.started_unix_ms = 1_795_272_125_000;
    run.elapsed = Duration::from_millis(seconds as u64 * 1000 - 500);
    for second in 0..seconds {
        let half = if second + 1 == seconds { 2 } else { 1 };
        fill(&mut run, 0, 1000 / half, 1_000_000, second);
        fill(&mut run, 1, 3000 / half, 500_000, second);
    }
    for second in 0..=seconds as u64 {
        run.samples.push(ServerSample {
            at_s: second as f64,
            cpu: Duration::from_millis(100 + 4 * second),
            commands: 5 + 4000 * second,
            used_memory: (1 << 20) + (100 << 10) * second,
            rss: (8 << 20) + (120 << 10) * second,
            keys: 1000 * second,
            connections: 51,
            ..ServerSample::default()
        });
    }
    run.client = Client { cpu: Duration::from_millis(700), busiest: 0.95, late_p99: Duration::ZERO };
    run.errors.insert("ERR <no> & \"such\", thing".into(), 2);
    run
}

fn fill(run: &mut Run, command: usize, count: u64, about_ns: u64, second: usize) {
    let mut corrected = histogram();
    let mut uncorrected = run.commands[command].uncorrected.is_some().then(histogram);
    for n in 0..count {
        let ns = about_ns / 2 + n * about_ns / count + second as u64 * 1000;
        corrected.record(if uncorrected.is_some() { ns * 2 } else { ns }).expect("within the bounds");
        if let Some(uncorrected) = &mut uncorrected {
            uncorrected.record(ns).expect("within the bounds");
        }
    }
    let (errors, misses) = if second == 0 && command == 1 { (2, 10) } else { (0, 0) };
    let hits = if command == 1 { count - misses - errors } else { 0 };
    let counts =
        Counts { requests: count, errors, hits, misses, bytes_sent: count * 100, bytes_received: count * 70 };
    let figures = &mut run.commands[command];
    figures.total.add(&counts);
    figures.corrected.add(&corrected).expect("the same bounds");
    if let (Some(all), Some(this)) = (&mut figures.uncorrected, &uncorrected) {
        all.add(this).expect("the same bounds");
    }
    let second = Second::of(counts, &corrected, uncorrected.as_ref(), &mut V2DeflateSerializer::new());
    figures.seconds.push(second);
}
