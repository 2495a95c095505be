//! LATENCY: slow events, and how long commands take.

use command::{Command, CommandError, Flags};
use resp::{Args, Reply};
use router::table::Entry;

use super::{ADMIN, QUIET, help, row};
use crate::worker::{Cx, Flow, SessionRun, Worker};

const TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];
const RESET_TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:agg_sum"];

pub const ROWS: &[Command<SessionRun>] =
    &[row("LATENCY", "Commands about latency.", "2.8.13", -2, Flags::NONE, show_help).with(SUBCOMMANDS)];

const SUBCOMMANDS: &[Command<SessionRun>] = &[
    row("DOCTOR", "Tells what was slow, in words.", "2.8.13", 2, ADMIN, doctor).tips(TIPS),
    row("GRAPH", "Draws how slow an event was.", "2.8.13", 3, ADMIN, graph).tips(TIPS).syntax("event:string"),
    row("HELP", "Shows the subcommands.", "2.8.13", 2, QUIET, show_help),
    row("HISTOGRAM", "Shows how long commands take.", "7.0.0", -2, ADMIN, histogram)
        .tips(TIPS)
        .syntax("[command:string*]"),
    row("HISTORY", "Shows when an event was slow.", "2.8.13", 3, ADMIN, history)
        .tips(TIPS)
        .syntax("event:string"),
    row("LATEST", "Shows the events that were slow.", "2.8.13", 2, ADMIN, latest).tips(TIPS),
    row("RESET", "Forgets slow events.", "2.8.13", -2, ADMIN, reset)
        .tips(RESET_TIPS)
        .syntax("[event:string*]"),
];

const HELP: &[&str] = &[
    "DOCTOR -- what was slow, in words.",
    "GRAPH <event> -- a drawing of how slow an event was.",
    "HISTOGRAM [<command> ...] -- how many calls of a command took up to 1, 2, 4, ... microseconds.",
    "HISTORY <event> -- the seconds in which an event was slow, and its worst latency in ms.",
    "LATEST -- each event with time, latest, worst, summed latency in ms, and count.",
    "RESET [<event> ...] -- forget all events or these.",
];

fn show_help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    help(reply, "LATENCY", HELP)
}

fn doctor(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let events = cx.worker.shared.latency.events();
    let mut text = String::new();
    if cx.worker.config.latency_monitor_threshold_ms == 0 {
        text.push_str(
            "Latency is not watched. CONFIG SET latency-monitor-threshold <milliseconds> makes the server remember what takes that \
             long.\n",
        );
    } else if events.is_empty() {
        text.push_str("Nothing has taken longer than latency-monitor-threshold since the start or the last LATENCY RESET.\n");
    }
    for (name, event) in events.iter() {
        let (mean, deviation) = event.mean_and_deviation();
        let seconds = event.samples.len();
        text.push_str(&format!(
            "{name}: slow {} times in {seconds} different seconds, {mean} ms on average (mean deviation {deviation} ms), {} ms at \
             worst. ",
            event.count, event.ms_max
        ));
        text.push_str("SLOWLOG GET shows which commands took long; whole-database commands and huge values are the usual cause.\n");
    }
    drop(events);
    reply.verbatim("txt", text.as_bytes());
    Ok(Flow::Done)
}

fn graph(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let name = String::from_utf8_lossy(&args[2]);
    let events = cx.worker.shared.latency.events();
    let Some(event) = events.get(&*name) else {
        return Err(CommandError::new(format!("ERR No samples available for event '{name}'")));
    };
    let of = |pick: fn(std::vec::IntoIter<u64>) -> Option<u64>| {
        let all: Vec<u64> = event.samples.iter().map(|sample| sample.ms).collect();
        pick(all.into_iter()).unwrap_or(0)
    };
    let (high, low) = (of(Iterator::max), of(Iterator::min));
    let head = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)", event.ms_max);
    let text = format!("{head}\n{}\n{}", "-".repeat(80), event.graph());
    reply.verbatim("txt", text.as_bytes());
    Ok(Flow::Done)
}

fn history(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let events = cx.worker.shared.latency.events();
    let Some(event) = std::str::from_utf8(&args[2]).ok().and_then(|name| events.get(name)) else {
        reply.array(0);
        return Ok(Flow::Done);
    };
    reply.array(event.samples.len());
    for sample in &event.samples {
        reply.array(2);
        reply.int(sample.unix_s as i64);
        reply.int(sample.ms as i64);
    }
    Ok(Flow::Done)
}

fn latest(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let events = cx.worker.shared.latency.events();
    reply.array(events.len());
    for (name, event) in events.iter() {
        let last = event.samples.back().expect("an event has samples");
        reply.array(6);
        reply.bulk(name.as_bytes());
        for number in [last.unix_s, last.ms, event.ms_max, event.ms_sum, event.count] {
            reply.int(number as i64);
        }
    }
    Ok(Flow::Done)
}

fn reset(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let named = |name: &str| args.len() == 2 || args.iter().skip(2).any(|word| word == name.as_bytes());
    reply.int(cx.worker.shared.latency.reset(named) as i64);
    Ok(Flow::Done)
}

fn histogram(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let worker = &*cx.worker;
    let deferred = reply.defer_array();
    let mut count = 0;
    let mut show = |entry: &Entry<SessionRun>| {
        for entry in std::iter::once(entry).chain(&entry.subcommands) {
            count += usize::from(show_latencies(worker, entry, reply));
        }
    };
    if args.len() == 2 {
        worker.shared.table.entries().iter().for_each(&mut show);
    }
    for name in args.iter().skip(2) {
        if let Some(entry) = super::command::named(worker, name) {
            show(entry);
        }
    }
    reply.finish_map(deferred, count);
    Ok(Flow::Done)
}

/// The latencies of one command, if it was ever measured.
fn show_latencies(worker: &Worker, entry: &Entry<SessionRun>, reply: &mut Reply) -> bool {
    let Some(latencies) = worker.shared.latencies(entry.number) else { return false };
    let bounds = latencies.cumulative();
    reply.bulk(entry.full_name.as_bytes());
    reply.map(2);
    reply.bulk(b"calls");
    reply.int(latencies.count() as i64);
    reply.bulk(b"histogram_usec");
    reply.map(bounds.len());
    for (bound_us, calls) in bounds {
        reply.int(bound_us as i64);
        reply.int(calls as i64);
    }
    true
}
