//! One thread of the load: its reactor, its connections, and the loop that keeps them busy.
//!
//! HOT: one turn of the loop serves all connections that have something to do. The clock is read once or twice per turn; requests that
//! leave together are stamped together just before the kernel gets them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use reactor::{Event, Input, Options, Reactor, clock};

use super::link::{Judge, Link, Trouble};
use crate::client::{Address, Client, plain, refused};
use crate::fault::{Fault, Result};
use crate::pace::Schedule;
use crate::plan::Plan;
use crate::record::histogram;
use crate::recorder::Recorder;
use crate::workload::{Dry, Half, Sequences, Slots, Stream, Work};

/// The longest that a turn waits: seconds are handed over and stopping is noticed this often at least.
const TURN_MAX: Duration = Duration::from_millis(50);
/// How long replies are waited for after an interruption.
const INTERRUPTED_DRAIN_NS: u64 = 1_000_000_000;
/// Receive buffers of a thread: one for each connection, within these bounds.
const RECEIVE_BUFFERS_MIN: usize = 8;
const RECEIVE_BUFFERS_MAX: usize = 128;
/// How often connections are looked at that may have died: 250 ms.
const CHECK_NS: u64 = 250_000_000;

/// A server process, as connections know it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub address: Address,
    /// The slots whose keys go there; nothing outside a cluster.
    pub slots: Option<Arc<Slots>>,
    /// Shared by connections to this node, unless a seed decides.
    pub sequences: Option<Sequences>,
    pub replica: bool,
}

/// A connection to be made.
#[derive(Copy, Clone, Debug)]
pub(super) struct Wanted {
    /// Its number among all connections.
    pub index: usize,
    pub node: usize,
    pub half: Half,
}

/// What all threads of a run see.
pub(super) struct Shared {
    pub plan: Plan,
    pub work: Arc<Work>,
    pub nodes: Vec<Node>,
    /// The node of each connection, and what it sends there.
    pub routes: Vec<(usize, Half)>,
    /// The slots of each node as they are now, and how often they have changed.
    pub slots: Mutex<Vec<Option<Arc<Slots>>>>,
    pub slots_version: AtomicU64,
    /// A reply said that a slot has moved.
    pub moved: AtomicBool,
    /// Requests that may still be sent, if nothing else bounds them; unlimited at `i64::MAX`.
    pub budget: AtomicI64,
    /// If shares are fixed: requests of each connection, and how many connections have one more.
    pub shares: Option<(u64, u64)>,
    /// Nobody is to send any more.
    pub stop: AtomicBool,
    /// The person at the keyboard does not want to wait.
    pub interrupted: AtomicBool,
    /// Replies so far, warm-up included; updated once per second or so by each thread.
    pub replies: AtomicU64,
}

/// When things happen, in nanoseconds of the monotonic clock.
#[derive(Copy, Clone, Debug)]
pub(super) struct Times {
    pub start_ns: u64,
    pub began_ns: u64,
    /// No request leaves after this.
    pub end_ns: u64,
}

/// What a thread gets when all are connected.
pub(super) struct Go {
    pub recorder: Recorder,
    pub times: Times,
}

/// What a thread has to say at its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Finished {
    pub cpu_us: u64,
    /// When the last reply came.
    pub last_ns: u64,
    /// Requests that should have left by then and did not.
    pub unsent: u64,
    /// How late requests were sent that a connection was free for.
    pub late: Option<Histogram<u64>>,
}

/// Runs one thread to its end. Says through `ready` when its connections stand.
pub(super) fn run(
    shared: &Arc<Shared>,
    thread: usize,
    wanted: &[Wanted],
    ready: &Sender<Result<()>>,
    go: &Receiver<Go>,
) -> Result<Finished> {
    let opened = Thread::open(shared, thread, wanted);
    let mut this = match opened {
        Ok(this) => this,
        Err(fault) => {
            // Without a listener there is nobody to tell.
            let _ = ready.send(Err(fault.clone()));
            return Err(fault);
        }
    };
    let _ = ready.send(Ok(()));
    let Ok(Go { mut recorder, times }) = go.recv() else { return Ok(Finished::default()) };
    this.times = times;
    let result = this.work(&mut recorder);
    if result.is_err() {
        shared.stop.store(true, Ordering::Relaxed);
        shared.interrupted.store(true, Ordering::Relaxed);
    }
    recorder.finish(clock::monotonic_ns());
    shared.replies.fetch_add(std::mem::take(&mut this.replies), Ordering::Relaxed);
    result.map(|()| this.finished)
}

struct Thread {
    shared: Arc<Shared>,
    reactor: Reactor,
    /// Data that a turn delivers was there when the turn ended: one reading of the clock serves all of it.
    ring: bool,
    links: Vec<Link>,
    /// By the index of a connection's slot in the reactor.
    by_slot: Vec<usize>,
    /// Links whose requests have not been stamped.
    fresh: Vec<usize>,
    /// Open loop: links that may send, in turn.
    free: VecDeque<usize>,
    schedule: Option<Schedule>,
    /// Open loop: the next request of this thread, its moment, and how far apart this thread's requests are.
    next_index: u64,
    next_ns: u64,
    threads: u64,
    /// Open loop: when all connections were last seen busy.
    blocked_ns: u64,
    slots_version: u64,
    times: Times,
    now_ns: u64,
    check_ns: u64,
    in_flight: usize,
    live: usize,
    plain: Vec<u8>,
    /// Replies not told to the others yet.
    replies: u64,
    cpu_start_us: Option<u64>,
    finished: Finished,
}

impl Thread {
    fn open(shared: &Arc<Shared>, thread: usize, wanted: &[Wanted]) -> Result<Thread> {
        let plan = &shared.plan;
        // The kernel fills receive buffers in turn: no more than needed, so that they stay in the processor's cache.
        let receive_buffers =
            wanted.len().next_power_of_two().clamp(RECEIVE_BUFFERS_MIN, RECEIVE_BUFFERS_MAX);
        let options = Options { receive_buffers: receive_buffers as u16, ..Options::default() };
        let (reactor, choice) = Reactor::new(plan.engine, options)
            .map_err(|error| Fault::new(format!("no event loop: {error}: try --io-engine epoll")))?;
        let schedule = Schedule::new(plan.pace, plan.warmup);
        let mut this = Thread {
            shared: Arc::clone(shared),
            reactor,
            ring: choice.uring,
            links: Vec::with_capacity(wanted.len()),
            by_slot: Vec::new(),
            fresh: Vec::new(),
            free: VecDeque::new(),
            schedule,
            next_index: thread as u64,
            next_ns: 0,
            threads: plan.threads as u64,
            blocked_ns: 0,
            slots_version: 0,
            times: Times { start_ns: 0, began_ns: 0, end_ns: 0 },
            now_ns: 0,
            check_ns: 0,
            in_flight: 0,
            live: wanted.len(),
            plain: Vec::new(),
            replies: 0,
            cpu_start_us: None,
            finished: Finished { late: schedule.map(|_| histogram()), ..Finished::default() },
        };
        for wanted in wanted {
            this.connect(wanted)?;
        }
        if this.schedule.is_some() {
            sleep_precisely();
        }
        Ok(this)
    }

    fn connect(&mut self, wanted: &Wanted) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let node = &shared.nodes[wanted.node];
        let own = Sequences::Own { index: wanted.index as u64, count: shared.plan.connections as u64 };
        let sequences = node.sequences.as_ref().unwrap_or(&own);
        let mut stream =
            Stream::new(Arc::clone(&shared.work), shared.plan.seed, wanted.index as u64, sequences);
        stream.bind(node.slots.clone());
        stream.restrict(wanted.half);
        let (id, tls) = self.dial(wanted.node)?;
        let mut link = Link::new(id, wanted.node, stream, tls);
        link.share = shared.shares.map_or(0, |(share, rest)| share + u64::from((wanted.index as u64) < rest));
        self.place(id, self.links.len());
        self.links.push(link);
        Ok(())
    }

    fn dial(&mut self, node: usize) -> Result<(reactor::ConnId, Option<Box<rustls::ClientConnection>>)> {
        let node = &self.shared.nodes[node];
        let mut client = Client::open(&node.address, &self.shared.plan.login)?;
        if node.replica && self.shared.plan.cluster {
            client.must(&["READONLY"])?;
        }
        let (socket, tls) = client.into_parts()?;
        Ok((self.reactor.add(socket), tls))
    }

    fn place(&mut self, id: reactor::ConnId, link: usize) {
        if self.by_slot.len() <= id.index() {
            self.by_slot.resize(id.index() + 1, usize::MAX);
        }
        self.by_slot[id.index()] = link;
    }

    /// The loop.
    fn work(&mut self, recorder: &mut Recorder) -> Result<()> {
        // Everybody begins at the same moment.
        let ahead_ns = self.times.start_ns.saturating_sub(clock::monotonic_ns());
        std::thread::sleep(Duration::from_nanos(ahead_ns));
        self.now_ns = clock::monotonic_ns();
        self.next_ns =
            self.times.start_ns + self.schedule.map_or(0, |schedule| schedule.at_ns(self.next_index));
        for link in 0..self.links.len() {
            match self.schedule {
                None => self.refill(link)?,
                Some(_) => self.list(link),
            }
        }
        let mut closed = false;
        loop {
            self.now_ns = clock::monotonic_ns();
            recorder.turn(self.now_ns);
            if self.cpu_start_us.is_none() && self.now_ns >= self.times.began_ns {
                self.cpu_start_us = Some(clock::thread_cpu_us());
            }
            if self.shared.slots_version.load(Ordering::Acquire) != self.slots_version {
                self.rebind();
            }
            let stopping = self.is_stopping();
            if self.schedule.is_some() && !closed {
                // Once more at the end: what was due before it.
                closed = stopping;
                self.send_due()?;
            }
            let over = if self.schedule.is_some() { stopping } else { stopping || self.live == 0 };
            if over && (self.in_flight == 0 || self.gives_up()) {
                break;
            }
            if self.now_ns >= self.check_ns {
                self.check()?;
            }
            self.stamp();
            let wait = self.wait();
            self.reactor
                .turn(Some(wait))
                .map_err(|error| Fault::new(format!("the event loop fails: {error}")))?;
            self.now_ns = clock::monotonic_ns();
            while let Some(event) = self.reactor.next_event() {
                self.handle(event, recorder)?;
            }
        }
        self.finish();
        Ok(())
    }

    /// Tells the streams which slots their nodes have now.
    #[cold]
    fn rebind(&mut self) {
        self.slots_version = self.shared.slots_version.load(Ordering::Acquire);
        let slots = self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let slots = slots.get(link.node).cloned().flatten();
            link.lost = slots.is_none();
            link.stream.bind(slots);
            if self.schedule.is_some() {
                self.list(index);
            }
        }
    }

    fn finish(&mut self) {
        let started = self.cpu_start_us.unwrap_or(0);
        self.finished.cpu_us = clock::thread_cpu_us().saturating_sub(started);
        if self.schedule.is_some() {
            let end = self.times.end_ns.min(self.now_ns);
            while self.next_ns < end && self.has_more() {
                self.finished.unsent += 1;
                self.advance();
            }
        }
    }

    fn is_stopping(&self) -> bool {
        let over = self.now_ns >= self.times.end_ns || self.schedule.is_some() && !self.has_more();
        over || self.shared.stop.load(Ordering::Relaxed)
    }

    /// Whether waiting for the last replies has gone on for long enough.
    fn gives_up(&self) -> bool {
        let interrupted = self.shared.interrupted.load(Ordering::Relaxed);
        interrupted && self.now_ns > self.check_ns.saturating_add(INTERRUPTED_DRAIN_NS)
    }

    /// Open loop: whether requests are left that the number of requests allows.
    fn has_more(&self) -> bool {
        let Some(requests) = self.shared.plan.requests else { return true };
        let warmup = self.schedule.map_or(0, |schedule| schedule.warmup_requests());
        self.next_index < warmup.saturating_add(requests)
    }

    fn advance(&mut self) {
        self.next_index += self.threads;
        let offset = self.schedule.map_or(0, |schedule| schedule.at_ns(self.next_index));
        self.next_ns = self.times.start_ns.saturating_add(offset);
    }

    /// How long a turn may wait.
    fn wait(&self) -> Duration {
        if self.schedule.is_none() || self.free.is_empty() {
            return TURN_MAX;
        }
        let now_ns = clock::monotonic_ns();
        Duration::from_nanos(self.next_ns.saturating_sub(now_ns)).min(TURN_MAX)
    }

    /// Open loop: sends what is due, on the connections that have room, in turn.
    fn send_due(&mut self) -> Result<()> {
        if self.shared.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let until_ns = self.now_ns.min(self.times.end_ns.saturating_sub(1));
        while self.next_ns <= until_ns && self.has_more() {
            let Some(index) = self.free.pop_front() else {
                self.blocked_ns = self.now_ns;
                return Ok(());
            };
            // What was due while all connections were busy is late because of the server.
            if self.next_ns > self.blocked_ns
                && self.next_ns >= self.times.began_ns
                && let Some(late) = &mut self.finished.late
            {
                late.saturating_record(self.now_ns - self.next_ns);
            }
            let mut out = self.reactor.buffer();
            let link = &mut self.links[index];
            link.listed = false;
            let result = link.write(1, Some(self.next_ns.max(1)), true, &mut out);
            if result.is_err() {
                return Err(self.no_key(index));
            }
            self.in_flight += 1;
            self.send(index, out)?;
            self.list(index);
            self.advance();
        }
        Ok(())
    }

    /// Open loop: puts a link that has room on the list.
    fn list(&mut self, index: usize) {
        let room = self.shared.plan.pipeline;
        let link = &mut self.links[index];
        if !link.listed && !link.lost && link.in_flight() < room {
            link.listed = true;
            self.free.push_back(index);
        }
    }

    /// Closed loop: the next pipeline of a connection whose replies are all here.
    #[inline]
    fn refill(&mut self, index: usize) -> Result<()> {
        let wanted = self.shared.plan.pipeline * self.shared.work.test.round();
        let idle = self.links[index].lost || self.is_stopping();
        let granted = if idle { 0 } else { self.grant(index, wanted as u64) };
        let apart = self.shared.work.context.verify;
        let link = &mut self.links[index];
        if granted == 0 {
            link.done = true;
            self.live -= 1;
            return Ok(());
        }
        let mut out = self.reactor.buffer();
        let mut written = 0;
        while written < granted {
            let wanted = (granted - written).min(u64::from(u32::MAX)) as u32;
            match link.write(wanted, None, apart, &mut out) {
                Ok(count) => written += u64::from(count),
                Err(Dry::Done) => break,
                Err(Dry::NoKey) => return Err(self.no_key(index)),
            }
        }
        if written == 0 {
            link.done = true;
            self.live -= 1;
        }
        self.in_flight += written as usize;
        self.send(index, out)
    }

    /// How many of `wanted` requests may be sent.
    #[inline]
    fn grant(&mut self, index: usize, wanted: u64) -> u64 {
        if self.now_ns < self.times.began_ns {
            return wanted;
        }
        if self.shared.shares.is_some() {
            let share = &mut self.links[index].share;
            let granted = wanted.min(*share);
            *share -= granted;
            return granted;
        }
        if self.shared.plan.requests.is_none() {
            return wanted;
        }
        let before = self.shared.budget.fetch_sub(wanted as i64, Ordering::Relaxed);
        before.clamp(0, wanted as i64) as u64
    }

    /// Queues bytes of a link; they leave at the next turn.
    #[inline]
    fn send(&mut self, index: usize, out: Vec<u8>) -> Result<()> {
        let link = &mut self.links[index];
        if link.is_fresh() {
            self.fresh.push(index);
        }
        let id = link.id;
        let out = if link.tls.is_some() {
            let sealed = link.seal(out);
            sealed.map_err(|trouble| self.trouble(index, &trouble))?
        } else {
            out
        };
        self.reactor.send(id, out.into());
        Ok(())
    }

    #[inline]
    fn stamp(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        let now_ns = clock::monotonic_ns();
        for index in self.fresh.drain(..) {
            self.links[index].stamp(now_ns);
        }
    }

    fn handle(&mut self, event: Event, recorder: &mut Recorder) -> Result<()> {
        match event {
            Event::Data { conn, input } => {
                let index = self.by_slot.get(conn.index()).copied().unwrap_or(usize::MAX);
                if index == usize::MAX {
                    return Ok(());
                }
                if !self.ring {
                    self.now_ns = clock::monotonic_ns();
                }
                self.receive(index, input, recorder)
            }
            Event::Closed { conn, error } => {
                let index = self.by_slot.get(conn.index()).copied().unwrap_or(usize::MAX);
                if index == usize::MAX || self.links[index].done && self.links[index].in_flight() == 0 {
                    return Ok(());
                }
                let address = &self.shared.nodes[self.links[index].node].address;
                let why = error.map_or_else(
                    || "closed the connection".to_string(),
                    |error| format!("broke the connection: {}", plain(&error)),
                );
                Err(Fault::new(format!("{address} has {why} during the run: see the server's log")))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn receive(&mut self, index: usize, input: Input, recorder: &mut Recorder) -> Result<()> {
        let link = &mut self.links[index];
        let before = link.in_flight();
        let work = &self.shared.work;
        let began_ns = self.times.began_ns;
        let judge = Judge {
            began_ns,
            commands: &work.test.commands,
            context: &work.context,
            cluster: self.shared.plan.cluster,
        };
        let result = if link.tls.is_some() {
            self.plain.clear();
            match link.unseal(&input, &mut self.plain) {
                Ok(answer) => {
                    if !answer.is_empty() {
                        self.reactor.send(link.id, answer.into());
                    }
                    link.receive(&self.plain, self.now_ns, &judge, recorder)
                }
                Err(trouble) => Err(trouble),
            }
        } else {
            link.receive(&input, self.now_ns, &judge, recorder)
        };
        drop(input);
        let after = link.in_flight();
        if let Err(trouble) = result {
            return Err(self.trouble(index, &trouble));
        }
        let redirected = u64::from(std::mem::take(&mut link.redirected));
        if redirected > 0 {
            self.redirected(index, redirected, recorder);
        }
        let replies = before - after;
        self.in_flight -= replies;
        self.replies += replies as u64;
        self.finished.last_ns = self.now_ns;
        if self.schedule.is_some() {
            self.list(index);
        } else if after == 0 && replies > 0 {
            if !self.shared.plan.keep_alive {
                self.reconnect(index)?;
            }
            self.refill(index)?;
        }
        Ok(())
    }

    /// Requests were answered with MOVED or ASK: the map is read again, and others may be sent in their place.
    #[cold]
    fn redirected(&mut self, index: usize, count: u64, recorder: &mut Recorder) {
        self.shared.moved.store(true, Ordering::Relaxed);
        if self.now_ns < self.times.began_ns {
            return;
        }
        recorder.redirected(count);
        if self.schedule.is_none() && self.shared.shares.is_some() {
            self.links[index].share += count;
        } else if self.schedule.is_none() && self.shared.plan.requests.is_some() {
            self.shared.budget.fetch_add(count as i64, Ordering::Relaxed);
        }
    }

    fn reconnect(&mut self, index: usize) -> Result<()> {
        let (id, node) = (self.links[index].id, self.links[index].node);
        self.by_slot[id.index()] = usize::MAX;
        self.reactor.close(id);
        let (id, tls) = self.dial(node)?;
        self.place(id, index);
        let link = &mut self.links[index];
        (link.id, link.tls) = (id, tls);
        Ok(())
    }

    /// Looks for connections that have died, and tells the others how far this thread is.
    fn check(&mut self) -> Result<()> {
        self.shared.replies.fetch_add(std::mem::take(&mut self.replies), Ordering::Relaxed);
        let timeout_ns = self.shared.plan.login.timeout.as_nanos() as u64;
        let now_ns = self.now_ns;
        let late =
            |link: &&Link| link.oldest_ns().is_some_and(|at_ns| at_ns.saturating_add(timeout_ns) < now_ns);
        if let Some(link) = self.links.iter().find(late) {
            let address = &self.shared.nodes[link.node].address;
            let seconds = self.shared.plan.login.timeout.as_secs_f64();
            return Err(Fault::new(format!(
                "{address} does not answer within {seconds} s: is it still running? if it is only slow, raise --timeout"
            )));
        }
        if !self.shared.interrupted.load(Ordering::Relaxed) {
            self.check_ns = self.now_ns + CHECK_NS;
        }
        Ok(())
    }

    fn no_key(&self, index: usize) -> Fault {
        let address = &self.shared.nodes[self.links[index].node].address;
        Fault::new(format!("no key of the range belongs to {address}: widen it with -r or --key-maximum"))
    }

    fn trouble(&self, index: usize, trouble: &Trouble) -> Fault {
        let address = &self.shared.nodes[self.links[index].node].address;
        match trouble {
            Trouble::Malformed(what) => {
                Fault::new(format!("{address} does not speak RESP: it sent {}: is the port right?", what.0))
            }
            Trouble::Unasked => Fault::new(format!(
                "{address} sends more replies than it was asked for: leave commands like SUBSCRIBE and MONITOR out of the workload"
            )),
            Trouble::Tls(what) => Fault::new(format!("TLS with {address} fails: {what}")),
            Trouble::Refused { command, text } => {
                refused(address, &self.shared.work.test.commands[*command].name, text)
            }
        }
    }
}

/// Lets this thread's waits end when they should: by default the kernel adds up to 50 us to gather wake-ups.
fn sleep_precisely() {
    let thread = std::fs::read_link("/proc/thread-self").ok();
    let id = thread.as_deref().and_then(|path| path.file_name()).map(|id| id.to_string_lossy().into_owned());
    if let Some(id) = id {
        // Where that is not allowed waits are longer, which the corrected latencies show.
        let _ = std::fs::write(format!("/proc/{id}/timerslack_ns"), "1");
    }
}
