//! Running a test: threads are started, connect, begin together, and are followed until they are through. The loop itself is in
//! `thread.rs`.

mod link;
mod thread;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use reactor::clock;

use self::thread::{Finished, Go, Node, Shared, Times, Wanted};
use crate::client::{Client, Login, Value};
use crate::cluster::{self, Member};
use crate::fault::{Fault, Result};
use crate::keys::{Distribution, Sampler as Keys};
use crate::pace::Pace;
use crate::plan::{Plan, Replicas};
use crate::record::{Run, Setup, Target};
use crate::recorder::Collector;
use crate::server::{Info, Sampler};
use crate::watch::{Progress, Watch};
use crate::workload::{Command, Half, Sequences, Slots, Test, Work};

/// How often the run is looked at from outside.
const LOOK: Duration = Duration::from_millis(100);
/// How far ahead the common beginning is set: threads must have got the word.
const HEAD_START_NS: u64 = 2_000_000;
/// Seconds above the bound after which a search for the highest rate has seen enough.
const SECONDS_ABOVE_MAX: usize = 2;

/// Runs one test of a plan. `interrupted` may become true at any time: what has been measured so far is the result.
pub fn run(plan: &Plan, test: &Test, watch: &mut dyn Watch, interrupted: &AtomicBool) -> Result<Run> {
    let work = Work::new(test.clone(), plan.context.clone());
    Campaign::start(plan, work, watch)?.follow(watch, interrupted)
}

/// Writes the first `keys` keys of the range, each once, with SET. The record is that of a run of the test `populate`.
pub fn populate(plan: &Plan, keys: u64, watch: &mut dyn Watch, interrupted: &AtomicBool) -> Result<Run> {
    const PIPELINE: usize = 32;
    let mut plan = plan.clone();
    let context = &mut plan.context;
    let first = context.keys.maximum() + 1 - context.keys.count();
    context.keys = Keys::new(Distribution::Sequential, first, first + keys.max(1) - 1)?;
    context.ints = true;
    // Keys as the tests write them.
    let plain = plan.tests.iter().any(|test| test.commands.iter().any(|command| command.template.has_key()));
    let tag = if context.tags { ":{tag}" } else { "" };
    let line = match (plain || plan.tests.is_empty(), context.expiry) {
        (true, None) => "SET __key__ __data__".to_string(),
        (true, Some(_)) => "SETEX __key__ __expiry__ __data__".to_string(),
        (false, _) => format!("SET key{tag}:__rand_int__ __data__"),
    };
    let test = Test::weighted("populate", vec![(Command::from_line(&line, context)?, 1)])?;
    plan.pipeline = plan.pipeline.max(PIPELINE);
    (plan.requests, plan.duration, plan.warmup, plan.pace) = (None, None, Duration::ZERO, Pace::Closed);
    (plan.seeded, plan.keep_alive, plan.replicas) = (false, true, Replicas::No);
    let mut work = Work::new(test, plan.context.clone());
    work.keys_max = Some(keys);
    Campaign::start(&plan, work, watch)?.follow(watch, interrupted)
}

/// A run that is going on.
struct Campaign {
    shared: Arc<Shared>,
    collector: Collector,
    threads: Vec<JoinHandle<Result<Finished>>>,
    sampler: Option<Sampler>,
    times: Times,
    /// Seconds of a search that have been looked at, and those above the bound since the last one below.
    seconds_seen: usize,
    above: usize,
}

impl Campaign {
    fn start(plan: &Plan, work: Work, watch: &mut dyn Watch) -> Result<Campaign> {
        let Servers { nodes, routes, version } = servers(plan, &work)?;
        let slots = nodes.iter().map(|node| node.slots.clone()).collect();
        let shared = Arc::new(Shared {
            budget: AtomicI64::new(
                plan.requests.map_or(i64::MAX, |requests| i64::try_from(requests).unwrap_or(i64::MAX)),
            ),
            shares: plan.requests.filter(|_| plan.seeded).map(|requests| {
                let connections = plan.connections as u64;
                (requests / connections, requests % connections)
            }),
            plan: plan.clone(),
            work: Arc::new(work),
            nodes,
            routes,
            slots: Mutex::new(slots),
            slots_version: AtomicU64::new(0),
            moved: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            replies: AtomicU64::new(0),
        });
        let (threads, starters) = connect(&shared)?;
        let start_ns = clock::monotonic_ns() + HEAD_START_NS;
        let began_ns = start_ns + plan.warmup.as_nanos() as u64;
        let end_ns = plan.duration.map_or(u64::MAX, |duration| began_ns + duration.as_nanos() as u64);
        let times = Times { start_ns, began_ns, end_ns };
        let mut run = new_run(&shared, version);
        run.started_unix_ms = clock::unix_ms() + plan.warmup.as_millis() as u64;
        let (collector, recorders) = Collector::new(run, threads.len(), began_ns);
        watch.began(collector.run());
        for (starter, recorder) in starters.iter().zip(recorders) {
            // A thread that is gone has a fault to tell, which is asked for later.
            let _ = starter.send(Go { recorder, times });
        }
        let addresses = shared.nodes.iter().map(|node| node.address.clone()).collect();
        let sampler = (!plan.quiet_server).then(|| {
            let login = Login { tracking: false, ..plan.login.clone() };
            Sampler::start(addresses, login, began_ns)
        });
        Ok(Campaign { shared, collector, threads, sampler, times, seconds_seen: 0, above: 0 })
    }

    /// Follows the threads to their end.
    fn follow(mut self, watch: &mut dyn Watch, interrupted: &AtomicBool) -> Result<Run> {
        while self.collector.collect(LOOK) {
            if interrupted.load(Ordering::Relaxed) && !self.shared.interrupted.swap(true, Ordering::Relaxed) {
                self.shared.stop.store(true, Ordering::Relaxed);
                self.collector.run_mut().interrupted = true;
            }
            let samples = self.sampler.as_ref().map(Sampler::take).unwrap_or_default();
            self.collector.run_mut().samples.extend(samples);
            self.search();
            if self.shared.moved.swap(false, Ordering::Relaxed) {
                self.read_map_again();
            }
            watch.goes_on(self.collector.run(), self.progress());
        }
        self.end(watch)
    }

    /// A slot has moved: connections get the keys that belong to their nodes now. Nodes that are new get none.
    fn read_map_again(&self) {
        let plan = &self.shared.plan;
        for node in &self.shared.nodes {
            let members = Client::open(&node.address, &plan.login)
                .and_then(|mut client| cluster::members(&mut client, &node.address));
            // A node that does not answer has trouble of its own: the next one knows the map as well.
            let Ok(mut members) = members else { continue };
            let slots = self.shared.nodes.iter().map(|node| {
                let member = members.iter_mut().find(|member| member.address == node.address)?;
                Slots::new(std::mem::take(&mut member.slots)).map(Arc::new)
            });
            *self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner) = slots.collect();
            self.shared.slots_version.fetch_add(1, Ordering::Release);
            return;
        }
    }

    fn end(mut self, watch: &mut dyn Watch) -> Result<Run> {
        let mut all = Finished::default();
        let (mut busiest_us, mut late) = (0, None::<hdrhistogram::Histogram<u64>>);
        let mut fault = None;
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(finished)) => {
                    all.cpu_us += finished.cpu_us;
                    busiest_us = busiest_us.max(finished.cpu_us);
                    all.last_ns = all.last_ns.max(finished.last_ns);
                    all.unsent += finished.unsent;
                    late = match (late, finished.late) {
                        (Some(mut all), Some(one)) => all.add(&one).map(|()| all).ok(),
                        (all, one) => all.or(one),
                    };
                }
                Ok(Err(other)) => fault = fault.or(Some(other)),
                Err(_) => {
                    fault =
                        fault.or_else(|| Some(Fault::new("a thread of the load has panicked: this is a bug")))
                }
            }
        }
        if let Some(sampler) = self.sampler.take() {
            self.collector.run_mut().samples.extend(sampler.finish());
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        let end_ns = if self.times.end_ns == u64::MAX {
            all.last_ns
        } else {
            all.last_ns.max(self.times.end_ns.min(clock::monotonic_ns()))
        };
        let elapsed = Duration::from_nanos(end_ns.saturating_sub(self.times.began_ns));
        self.collector.run_mut().unsent = all.unsent;
        let client = &mut self.collector.run_mut().client;
        client.late_p99 = Duration::from_nanos(late.map_or(0, |late| late.value_at_quantile(0.99)));
        client.cpu = Duration::from_micros(all.cpu_us);
        client.busiest =
            if elapsed.is_zero() { 0.0 } else { busiest_us as f64 / 1e6 / elapsed.as_secs_f64() };
        let run = self.collector.finish(elapsed);
        watch.ended(&run);
        Ok(run)
    }

    fn progress(&self) -> Progress {
        let plan = &self.shared.plan;
        let now_ns = clock::monotonic_ns();
        let warming_up = now_ns < self.times.began_ns;
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.times.began_ns));
        let requests = plan.requests.or(self.shared.work.keys_max);
        let done = match (plan.duration, requests) {
            (Some(duration), _) => Some(elapsed.as_secs_f64() / duration.as_secs_f64().max(1e-9)),
            (None, Some(requests)) if plan.warmup.is_zero() => {
                Some(self.shared.replies.load(Ordering::Relaxed) as f64 / requests.max(1) as f64)
            }
            (None, Some(requests)) => {
                Some(self.collector.run().total().requests as f64 / requests.max(1) as f64)
            }
            (None, None) => None,
        };
        let done = done.map(|done| if warming_up { 0.0 } else { done.clamp(0.0, 1.0) });
        let left = match (plan.duration, done) {
            (Some(duration), _) => Some(duration.saturating_sub(elapsed)),
            (None, Some(done)) if done > 0.01 => Some(elapsed.mul_f64((1.0 - done) / done)),
            _ => None,
        };
        Progress { done, left, warming_up }
    }

    /// A ramp with a bound: remembers the highest rate that kept to it, and stops when it is clear that there is no higher one.
    fn search(&mut self) {
        let (Pace::Ramp(_), Some(p99_max)) = (self.shared.plan.pace, self.shared.plan.p99_max) else {
            return;
        };
        if self.shared.stop.load(Ordering::Relaxed) {
            // The last second is cut short: few requests in it mean nothing.
            return;
        }
        let run = self.collector.run_mut();
        while self.seconds_seen < run.seconds() {
            let second = self.seconds_seen;
            self.seconds_seen += 1;
            let seconds = run.commands.iter().filter_map(|command| command.seconds.get(second));
            let (mut requests, mut p99_ns) = (0, 0);
            for second in seconds {
                requests += second.counts.requests;
                p99_ns = p99_ns.max(second.corrected.p99);
            }
            let kept = requests > 0 && Duration::from_nanos(p99_ns) <= p99_max;
            self.above = if kept { 0 } else { self.above + 1 };
            if kept {
                let rate = requests as f64;
                run.rate_found = Some(run.rate_found.map_or(rate, |best| best.max(rate)));
            }
        }
        if self.above >= SECONDS_ABOVE_MAX {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Starts the threads and waits until all are connected.
#[expect(clippy::type_complexity, reason = "a pair of lists by thread")]
fn connect(shared: &Arc<Shared>) -> Result<(Vec<JoinHandle<Result<Finished>>>, Vec<Sender<Go>>)> {
    let (ready, readiness) = channel();
    let mut threads = Vec::new();
    let mut starters = Vec::new();
    for (number, wanted) in wanted(shared).into_iter().enumerate() {
        let (starter, go): (Sender<Go>, Receiver<Go>) = channel();
        starters.push(starter);
        let (shared, ready) = (Arc::clone(shared), ready.clone());
        let work = move || thread::run(&shared, number, &wanted, &ready, &go);
        let handle = std::thread::Builder::new().name(format!("bench-{number}")).spawn(work);
        threads
            .push(handle.map_err(|error| Fault::new(format!("cannot start a thread: {error}: use fewer")))?);
    }
    drop(ready);
    for result in readiness.iter().take(threads.len()) {
        // The others find nobody who tells them to go, and end.
        result?;
    }
    Ok((threads, starters))
}

/// The connections of each thread.
fn wanted(shared: &Shared) -> Vec<Vec<Wanted>> {
    let mut threads = vec![Vec::new(); shared.plan.threads];
    for (index, (node, half)) in shared.routes.iter().copied().enumerate() {
        threads[index % shared.plan.threads].push(Wanted { index, node, half });
    }
    threads
}

/// What is known of the servers before the run.
struct Servers {
    nodes: Vec<Node>,
    /// The node of each connection, and what goes there.
    routes: Vec<(usize, Half)>,
    version: String,
}

/// Finds the servers and readies them.
fn servers(plan: &Plan, work: &Work) -> Result<Servers> {
    let mut client = Client::open(&plan.address, &plan.login)?;
    let version = Info::ask(&mut client)?.version();
    let members = if plan.cluster {
        cluster::check(&work.test)?;
        cluster::members(&mut client, &plan.address)?
    } else if plan.replicas != Replicas::No {
        cluster::replication(&mut client, &plan.address)?
    } else {
        vec![Member { address: plan.address.clone(), slots: Vec::new(), replica: false }]
    };
    let members: Vec<Member> =
        members.into_iter().filter(|member| plan.replicas != Replicas::No || !member.replica).collect();
    for member in members.iter().filter(|member| !member.replica && !work.test.setup.is_empty()) {
        let mut client = Client::open(&member.address, &plan.login)?;
        for words in &work.test.setup {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            if let Value::Error(text) = client.call_bytes(&words)? {
                let (address, test) = (&member.address, &work.test.name);
                return Err(Fault::new(format!("{address} cannot be readied for {test}: {text}")));
            }
        }
    }
    let routes = cluster::assign(&members, plan.replicas, &work.test, plan.connections)?;
    let shared = !plan.seeded || work.keys_max.is_some();
    let nodes = members.into_iter().map(|member| Node {
        address: member.address,
        slots: Slots::new(member.slots).map(Arc::new),
        sequences: shared.then(Sequences::shared),
        replica: member.replica,
    });
    Ok(Servers { nodes: nodes.collect(), routes, version })
}

/// The empty record.
fn new_run(shared: &Shared, version: String) -> Run {
    let plan = &shared.plan;
    let test = &shared.work.test;
    let setup =
        Setup { rate: plan.pace.rate(), pipeline: plan.pipeline * test.round(), ..plan.setup.clone() };
    let address = plan.address.to_string();
    let target = Target { name: plan.name.clone().unwrap_or_else(|| address.clone()), address, version };
    let names: Vec<String> = test.commands.iter().map(|command| command.name.clone()).collect();
    let nodes: Vec<String> = shared.nodes.iter().map(|node| node.address.to_string()).collect();
    let nodes = if nodes.len() > 1 || plan.cluster { nodes } else { Vec::new() };
    Run::new(setup, target, &test.name, &names, &nodes)
}
