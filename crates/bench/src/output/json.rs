//! Runs as JSON: in the layout of memtier_benchmark, so that what reads its files reads these, and below `darter-bench` everything that
//! the record has, in a schema that the crate's README documents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde_json::{Map, Value, json};

use crate::record::{Counts, Figures, Percentiles, Run, Second, per_second};
use crate::units::utc;

/// Raised when a field changes its meaning or goes away, not when one is added.
pub const SCHEMA: u32 = 1;
/// Steps of the percentiles in memtier's distribution: as many per halving of what remains.
const TICKS_PER_HALVING: u32 = 5;

/// The document, ended by a newline.
pub fn document(runs: &[Run]) -> String {
    let mut root = Map::new();
    if let Some(first) = runs.first() {
        root.insert("configuration".into(), configuration(first));
        root.insert("run information".into(), information(runs));
    }
    for (index, run) in runs.iter().enumerate() {
        let name = if runs.len() == 1 { "ALL STATS".into() } else { format!("RUN #{} RESULTS", index + 1) };
        root.insert(name, memtier(run));
    }
    let runs: Vec<Value> = runs.iter().map(full).collect();
    root.insert(
        "darter-bench".into(),
        json!({ "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"), "runs": runs }),
    );
    serde_json::to_string_pretty(&root).expect("values of JSON can be written") + "\n"
}

fn configuration(run: &Run) -> Value {
    let setup = &run.setup;
    let (server, port) = run.target.address.rsplit_once(':').unwrap_or((&run.target.address, "0"));
    json!({
        "server": server,
        "port": port.parse::<u16>().unwrap_or(0),
        "protocol": "redis",
        "run_count": 1,
        "threads": setup.threads,
        "clients": setup.connections / setup.threads.max(1),
        "requests": setup.requests.unwrap_or(0),
        "test_time": setup.duration.map_or(0, |duration| duration.as_secs()),
        "pipeline": setup.pipeline,
        "data_size": setup.data_size,
        "seed": setup.seed,
        "cluster_mode": setup.cluster,
        "command_line": setup.command_line,
    })
}

fn information(runs: &[Run]) -> Value {
    let first = &runs[0];
    let ends = |run: &Run| run.started_unix_ms + run.elapsed.as_millis() as u64;
    let begins = runs.iter().map(|run| run.started_unix_ms).min().unwrap_or(0);
    let finish = runs.iter().map(ends).max().unwrap_or(0);
    let threads = first.setup.threads;
    json!({
        "Threads count": threads,
        "Connections per thread": first.setup.connections / threads.max(1),
        "Format version": 2,
        "Start time": begins,
        "Finish time": finish,
        "Total duration": finish - begins,
    })
}

/// One run as memtier writes it.
fn memtier(run: &Run) -> Value {
    let mut stats = Map::new();
    let milliseconds = run.elapsed.as_millis() as u64;
    stats.insert(
        "Runtime".into(),
        json!({
            "Start time": run.started_unix_ms,
            "Finish time": run.started_unix_ms + milliseconds,
            "Total duration": milliseconds,
            "Time unit": "MILLISECONDS",
        }),
    );
    let mut totals = Vec::new();
    for second in 0..run.seconds() {
        totals.push(summed(run, second));
    }
    for figures in &run.commands {
        let name = plural(&figures.name);
        stats.insert(name, memtier_part(run, &figures.total, &figures.corrected, &figures.seconds));
    }
    stats.insert("Totals".into(), memtier_part(run, &run.total(), &run.corrected(), &totals));
    for figures in &run.commands {
        stats.insert(figures.name.clone(), distribution(&figures.corrected));
    }
    Value::Object(stats)
}

/// `Sets` for SET, as memtier has it.
fn plural(command: &str) -> String {
    let mut chars = command.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase()).into_iter();
    first.chain(chars.map(|c| c.to_ascii_lowercase())).chain(['s']).collect()
}

/// A second of all commands together. Its percentiles are the largest among the commands: what the histograms of the commands allow to
/// say without keeping all of them.
fn summed(run: &Run, second: usize) -> Second {
    let mut all = Second::default();
    let parts = run.commands.iter().filter_map(|figures| figures.seconds.get(second));
    let mut weighed = 0.0;
    for part in parts.filter(|part| part.counts.requests > 0) {
        all.counts.add(&part.counts);
        weighed += part.corrected.mean * part.counts.requests as f64;
        let (into, from) = (&mut all.corrected, &part.corrected);
        into.min = if into.max == 0 { from.min } else { into.min.min(from.min) };
        into.p50 = into.p50.max(from.p50);
        into.p90 = into.p90.max(from.p90);
        into.p95 = into.p95.max(from.p95);
        into.p99 = into.p99.max(from.p99);
        into.p999 = into.p999.max(from.p999);
        into.max = into.max.max(from.max);
    }
    all.corrected.mean = weighed / all.counts.requests.max(1) as f64;
    all
}

fn memtier_part(run: &Run, counts: &Counts, latencies: &Histogram<u64>, seconds: &[Second]) -> Value {
    let rate = |count| round(per_second(count, run.elapsed), 2);
    let places = Percentiles::of(latencies);
    let mean = ms_of(places.mean);
    let series: Map<String, Value> = seconds
        .iter()
        .enumerate()
        .map(|(second, this)| {
            let at = &this.corrected;
            let values = json!({
                "Count": this.counts.requests,
                "Average Latency": ms_of(at.mean),
                "Min Latency": ms(at.min),
                "Max Latency": ms(at.max),
                "p50.00": ms(at.p50),
                "p99.00": ms(at.p99),
                "p99.90": ms(at.p999),
            });
            (second.to_string(), values)
        })
        .collect();
    json!({
        "Count": counts.requests,
        "Ops/sec": rate(counts.requests),
        "Hits/sec": rate(counts.hits),
        "Misses/sec": rate(counts.misses),
        "Latency": mean,
        "Average Latency": mean,
        "Min Latency": ms(places.min),
        "Max Latency": ms(places.max),
        "KB/sec": round(per_second(counts.bytes_sent + counts.bytes_received, run.elapsed) / 1024.0, 2),
        "Time-Serie": series,
        "Percentile Latencies": {
            "p50.000": ms(places.p50),
            "p99.000": ms(places.p99),
            "p99.900": ms(places.p999),
            "Histogram log format": { "Compressed Histogram": encoded_us(latencies) },
        },
    })
}

/// The distribution as memtier prints it: steps of percentiles that become finer towards the end.
fn distribution(latencies: &Histogram<u64>) -> Value {
    let steps = latencies.iter_quantiles(TICKS_PER_HALVING).map(|step| {
        json!({ "<=msec": ms(step.value_iterated_to()), "percent": round(step.quantile_iterated_to() * 100.0, 4) })
    });
    if latencies.is_empty() { json!([]) } else { steps.collect() }
}

/// A histogram as memtier writes it: in microseconds, compressed, as base64.
fn encoded_us(latencies: &Histogram<u64>) -> String {
    let mut in_us = Histogram::<u64>::new_with_bounds(1, crate::record::LATENCY_NS_MAX / 1000, 3)
        .expect("the bounds are constants");
    for step in latencies.iter_recorded() {
        let us = (step.value_iterated_to() as f64 / 1000.0).round() as u64;
        in_us.saturating_record_n(us.max(1), step.count_at_value());
    }
    encoded(&in_us)
}

fn encoded(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("writing to memory does not fail");
    STANDARD.encode(bytes)
}

/// One run with all that its record has.
fn full(run: &Run) -> Value {
    let setup = &run.setup;
    let server = run.server().map(|used| {
        json!({
            "cpu_us_per_command": used.cpu_us_per_command(),
            "cpus_busy": used.cpus_busy(),
            "commands": used.commands,
            "used_memory": used.used_memory,
            "rss": used.rss,
            "rss_max": used.rss_max,
            "keys": used.keys,
            "bytes_per_entry": used.bytes_per_entry(),
            "evicted": used.evicted,
            "expired": used.expired,
            "errors": used.errors,
            "samples": run.samples.iter().map(|sample| json!({
                "at_s": sample.at_s,
                "node": sample.node,
                "cpu_s": sample.cpu.as_secs_f64(),
                "commands": sample.commands,
                "used_memory": sample.used_memory,
                "rss": sample.rss,
                "keys": sample.keys,
                "evicted": sample.evicted,
                "expired": sample.expired,
                "errors": sample.errors,
                "connections": sample.connections,
            })).collect::<Vec<_>>(),
        })
    });
    json!({
        "test": run.test,
        "workload": setup.workload,
        "target": { "name": run.target.name, "address": run.target.address, "version": run.target.version },
        "started": utc(run.started_unix_ms),
        "started_unix_ms": run.started_unix_ms,
        "elapsed_s": run.elapsed.as_secs_f64(),
        "interrupted": run.interrupted,
        "setup": {
            "command_line": setup.command_line,
            "threads": setup.threads,
            "connections": setup.connections,
            "pipeline": setup.pipeline,
            "data_size": setup.data_size,
            "keys": setup.keys,
            "key_distribution": setup.key_distribution,
            "seed": setup.seed,
            "rate": setup.rate,
            "cluster": setup.cluster,
            "warmup_s": setup.warmup.as_secs_f64(),
        },
        "requests_per_s": run.per_second(),
        "rate_found": run.rate_found,
        "unsent": run.unsent,
        "redirected": run.redirected,
        "total": figures(&whole(run), run),
        "commands": run.commands.iter().map(|one| figures(one, run)).collect::<Vec<_>>(),
        "nodes": run.nodes.iter().map(|one| figures(one, run)).collect::<Vec<_>>(),
        "errors": run.errors,
        "server": server,
        "client": {
            "cpu_s": run.client.cpu.as_secs_f64(),
            "busiest_thread": run.client.busiest,
            "was_the_limit": run.client.was_the_limit(),
            "late_p99_s": run.client.late_p99.as_secs_f64(),
        },
    })
}

fn whole(run: &Run) -> Figures {
    let mut all = Figures::new("all", false);
    all.total = run.total();
    all.corrected = run.corrected();
    all.uncorrected = run.uncorrected();
    all
}

fn figures(figures: &Figures, run: &Run) -> Value {
    let seconds: Vec<Value> = figures
        .seconds
        .iter()
        .map(|this| {
            json!({
                "requests": this.counts.requests,
                "errors": this.counts.errors,
                "latency_ns": percentiles(&this.corrected),
                "latency_since_sent_ns": this.uncorrected.as_ref().map(percentiles),
            })
        })
        .collect();
    let counts = &figures.total;
    json!({
        "name": figures.name,
        "requests": counts.requests,
        "requests_per_s": per_second(counts.requests, run.elapsed),
        "errors": counts.errors,
        "hits": counts.hits,
        "misses": counts.misses,
        "bytes_sent": counts.bytes_sent,
        "bytes_received": counts.bytes_received,
        "latency_ns": percentiles(&Percentiles::of(&figures.corrected)),
        "latency_since_sent_ns": figures.uncorrected.as_ref().map(|latencies| percentiles(&Percentiles::of(latencies))),
        "histogram": encoded(&figures.corrected),
        "histogram_since_sent": figures.uncorrected.as_ref().map(encoded),
        "seconds": seconds,
    })
}

fn percentiles(places: &Percentiles) -> Value {
    json!({
        "mean": round(places.mean, 1),
        "min": places.min,
        "p50": places.p50,
        "p90": places.p90,
        "p95": places.p95,
        "p99": places.p99,
        "p99.9": places.p999,
        "max": places.max,
    })
}

fn ms(ns: u64) -> f64 {
    ms_of(ns as f64)
}

/// Milliseconds to the microsecond.
fn ms_of(ns: f64) -> f64 {
    round(ns / 1e6, 3)
}

fn round(figure: f64, places: i32) -> f64 {
    let unit = 10f64.powi(places);
    (figure * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;

    use super::*;
    use crate::synthetic;

    fn decode(text: &Value) -> Histogram<u64> {
        let bytes = STANDARD.decode(text.as_str().unwrap()).unwrap();
        Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn memtiers_layout_reads_back() {
        let run = synthetic::run("here", 3, false);
        let back: Value = serde_json::from_str(&document(&[run])).unwrap();
        let sets = &back["ALL STATS"]["Sets"];
        assert_eq!(sets["Count"], 2500);
        assert_eq!(sets["Ops/sec"], 1000.0);
        assert_eq!(sets["Time-Serie"]["2"]["Count"], 500);
        assert_eq!(back["ALL STATS"]["Totals"]["Misses/sec"], 4.0);
        assert_eq!(back["ALL STATS"]["Runtime"]["Total duration"], 2500);
        assert_eq!(back["configuration"]["port"], 6379);
        assert_eq!(back["run information"]["Connections per thread"], 25);
        let in_us = decode(&sets["Percentile Latencies"]["Histogram log format"]["Compressed Histogram"]);
        assert_eq!(in_us.len(), 2500);
        assert!(in_us.max().abs_diff(1500) <= 2);
        let steps = back["ALL STATS"]["GET"].as_array().unwrap();
        assert_eq!(steps.last().unwrap()["percent"], 100.0);
    }

    #[test]
    fn our_own_part_has_all_of_the_record() {
        let runs = [synthetic::run("a", 3, true), synthetic::run("b", 3, true)];
        let back: Value = serde_json::from_str(&document(&runs)).unwrap();
        assert!(back["ALL STATS"].is_null() && back["RUN #2 RESULTS"]["Gets"]["Count"] == 7500);
        let ours = &back["darter-bench"];
        assert_eq!((&ours["schema"], ours["runs"].as_array().unwrap().len()), (&json!(1), 2));
        let second = &ours["runs"][1];
        assert_eq!(second["target"]["name"], "b");
        assert_eq!(second["errors"]["ERR <no> & \"such\", thing"], 2);
        assert_eq!(second["client"]["was_the_limit"], true);
        assert_eq!(second["server"]["samples"].as_array().unwrap().len(), 4);
        let get = &second["commands"][1];
        assert_eq!(decode(&get["histogram"]).len(), 7500);
        assert_eq!(decode(&get["histogram"]).max(), get["latency_ns"]["max"].as_u64().unwrap());
        assert!(get["latency_since_sent_ns"]["p99"].as_u64() < get["latency_ns"]["p99"].as_u64());
        assert_eq!(get["seconds"][0]["errors"], 2);
        assert_eq!(second["total"]["requests"], 10_000);
        let empty: Value = serde_json::from_str(&document(&[])).unwrap();
        assert_eq!(empty["darter-bench"]["runs"], json!([]));
    }
}
