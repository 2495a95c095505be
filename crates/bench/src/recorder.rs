//! From the threads that send to the record: a [`Recorder`] per thread, which takes no lock, and the one [`Collector`], which puts the
//! threads' seconds together. A thread fills a slice; when a second is over it hands the slice over and goes on with an empty one that
//! came back. Neither side reads a clock: time comes in as nanoseconds since a moment of the caller's choice.
//!
//! HOT: [`Recorder::reply`] runs for every reply (or batch of them): no allocation, no lock, no system call.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;

use crate::record::{Counts, Figures, Run, Second, histogram};

const SECOND_NS: u64 = 1_000_000_000;
/// Different error texts that a record keeps; a server that puts a counter into its errors must not fill our memory.
const ERROR_TEXTS_MAX: usize = 100;
/// Bytes of an error's text that are kept.
const ERROR_TEXT_BYTES_MAX: usize = 200;
/// Where further texts are counted.
const OTHER_ERRORS: &str = "(other errors)";

/// What a thread did in one second.
struct Slice {
    thread: usize,
    /// Counted from the beginning of measuring; nothing for the warm-up.
    second: Option<usize>,
    commands: Vec<Part>,
    /// Empty where there is one server.
    nodes: Vec<Part>,
    errors: BTreeMap<String, u64>,
    redirected: u64,
}

struct Part {
    counts: Counts,
    corrected: Histogram<u64>,
    uncorrected: Option<Histogram<u64>>,
}

impl Part {
    fn new(open_loop: bool) -> Self {
        Self { counts: Counts::default(), corrected: histogram(), uncorrected: open_loop.then(histogram) }
    }

    fn clear(&mut self) {
        if self.counts == Counts::default() {
            return;
        }
        self.counts = Counts::default();
        self.corrected.reset();
        if let Some(uncorrected) = &mut self.uncorrected {
            uncorrected.reset();
        }
    }
}

/// How many parts a slice has.
#[derive(Clone, Copy)]
struct Shape {
    commands: usize,
    nodes: usize,
    open_loop: bool,
}

impl Slice {
    fn new(shape: Shape, thread: usize) -> Self {
        Self {
            thread,
            second: None,
            commands: (0..shape.commands).map(|_| Part::new(shape.open_loop)).collect(),
            nodes: (0..shape.nodes).map(|_| Part::new(false)).collect(),
            errors: BTreeMap::new(),
            redirected: 0,
        }
    }

    fn clear(&mut self) {
        self.redirected = 0;
        self.commands.iter_mut().chain(&mut self.nodes).for_each(Part::clear);
        self.errors.clear();
    }
}

/// A moment at which a reply, or several at once, arrived.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Which command: an index into the names the collector was made with.
    pub command: usize,
    /// Which node answered; not looked at where there is one server.
    pub node: usize,
    /// How many replies of the same latency: those of one pipeline that arrived together.
    pub count: u64,
    /// Nanoseconds since it should have been sent.
    pub corrected_ns: u64,
    /// Nanoseconds since it was sent; not looked at in a closed loop.
    pub uncorrected_ns: u64,
}

/// Where one thread records.
pub struct Recorder {
    shape: Shape,
    slice: Box<Slice>,
    began_ns: u64,
    /// When the slice is to be handed over.
    ends_ns: u64,
    full: Sender<Box<Slice>>,
    empty: Receiver<Box<Slice>>,
}

impl Recorder {
    /// Counts replies. Errors and misses among them are told by [`Self::error`] and [`Self::found`] in addition.
    pub fn reply(&mut self, reply: Reply) {
        let part = &mut self.slice.commands[reply.command];
        part.counts.requests += reply.count;
        part.corrected.saturating_record_n(reply.corrected_ns, reply.count);
        if let Some(uncorrected) = &mut part.uncorrected {
            uncorrected.saturating_record_n(reply.uncorrected_ns, reply.count);
        }
        if let Some(part) = self.slice.nodes.get_mut(reply.node) {
            part.counts.requests += reply.count;
            part.corrected.saturating_record_n(reply.corrected_ns, reply.count);
        }
    }

    /// Counts bytes that a command cost on the wire.
    pub fn bytes(&mut self, command: usize, sent: u64, received: u64) {
        let counts = &mut self.slice.commands[command].counts;
        counts.bytes_sent += sent;
        counts.bytes_received += received;
    }

    /// Counts reads that found a value, and those that did not.
    pub fn found(&mut self, command: usize, hits: u64, misses: u64) {
        let counts = &mut self.slice.commands[command].counts;
        counts.hits += hits;
        counts.misses += misses;
    }

    /// Counts an error reply, or a check that failed, by its text.
    pub fn error(&mut self, command: usize, node: usize, text: &[u8]) {
        self.slice.commands[command].counts.errors += 1;
        if let Some(part) = self.slice.nodes.get_mut(node) {
            part.counts.errors += 1;
        }
        let text = String::from_utf8_lossy(&text[..text.len().min(ERROR_TEXT_BYTES_MAX)]);
        add_error(&mut self.slice.errors, text.trim_end(), 1);
    }

    /// Counts requests that were answered with MOVED or ASK, which are in none of the other figures.
    pub fn redirected(&mut self, count: u64) {
        self.slice.redirected += count;
    }

    /// Tells the time; hands a second over once it has passed. To be called whenever the thread has read the clock, and at least ten times
    /// a second.
    pub fn turn(&mut self, now_ns: u64) {
        if now_ns >= self.ends_ns {
            self.hand_over(now_ns);
        }
    }

    #[cold]
    fn hand_over(&mut self, now_ns: u64) {
        let second = ((now_ns - self.began_ns) / SECOND_NS) as usize;
        let mut next = self.empty.try_recv().unwrap_or_else(|_| Box::new(Slice::new(self.shape, 0)));
        next.clear();
        (next.thread, next.second) = (self.slice.thread, Some(second));
        self.ends_ns = self.began_ns + (second as u64 + 1) * SECOND_NS;
        // A collector that is gone wants no more figures.
        let _ = self.full.send(std::mem::replace(&mut self.slice, next));
    }

    /// The thread is done: hands over what it has.
    pub fn finish(self, now_ns: u64) {
        let mut this = self;
        this.turn(now_ns);
        let _ = this.full.send(this.slice);
    }
}

fn add_error(errors: &mut BTreeMap<String, u64>, text: &str, count: u64) {
    if let Some(known) = errors.get_mut(text) {
        *known += count;
    } else if errors.len() < ERROR_TEXTS_MAX {
        errors.insert(text.to_string(), count);
    } else {
        *errors.entry(OTHER_ERRORS.to_string()).or_insert(0) += count;
    }
}

/// A second that not every thread has handed over yet.
struct Pending {
    commands: Vec<Whole>,
    nodes: Vec<Whole>,
}

struct Whole {
    counts: Counts,
    corrected: Histogram<u64>,
    uncorrected: Option<Histogram<u64>>,
}

/// Puts the threads' seconds together into a [`Run`].
pub struct Collector {
    run: Run,
    shape: Shape,
    full: Receiver<Box<Slice>>,
    empty: Vec<Sender<Box<Slice>>>,
    /// The second that each thread works at; `usize::MAX` for one that is done.
    reached: Vec<usize>,
    /// The seconds after those that the run has.
    pending: VecDeque<Pending>,
    serializer: V2DeflateSerializer,
}

impl Collector {
    /// One for a run, with a recorder for each of its threads. Measuring begins at `began_ns`; what is recorded before is warm-up and not
    /// kept.
    pub fn new(run: Run, threads: usize, began_ns: u64) -> (Self, Vec<Recorder>) {
        let shape = Shape {
            commands: run.commands.len(),
            nodes: run.nodes.len(),
            open_loop: run.setup.rate.is_some(),
        };
        let (full_in, full) = channel();
        let mut empty = Vec::new();
        let recorders = (0..threads).map(|thread| {
            let (back, from) = channel();
            empty.push(back);
            let slice = Box::new(Slice::new(shape, thread));
            Recorder { shape, slice, began_ns, ends_ns: began_ns, full: full_in.clone(), empty: from }
        });
        let recorders = recorders.collect();
        let (reached, pending) = (vec![0; threads], VecDeque::new());
        (
            Self { run, shape, full, empty, reached, pending, serializer: V2DeflateSerializer::new() },
            recorders,
        )
    }

    /// The record so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The record so far, to add what others than threads have to say: samples of the server, the client's own use.
    pub fn run_mut(&mut self) -> &mut Run {
        &mut self.run
    }

    /// Takes what the threads hand over for at most so long, returning early when a second is complete. False once no thread is left.
    pub fn collect(&mut self, limit: Duration) -> bool {
        let seconds = self.run.seconds();
        match self.full.recv_timeout(limit) {
            Ok(slice) => self.take(*slice),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => {
                self.reached.fill(usize::MAX);
                self.complete();
                return false;
            }
        }
        while self.run.seconds() == seconds {
            let Ok(slice) = self.full.try_recv() else { break };
            self.take(*slice);
        }
        true
    }

    /// The finished record. `elapsed` is how long was measured.
    pub fn finish(mut self, elapsed: Duration) -> Run {
        while let Ok(slice) = self.full.try_recv() {
            self.take(*slice);
        }
        self.reached.fill(usize::MAX);
        self.complete();
        self.run.elapsed = elapsed;
        self.run
    }

    fn take(&mut self, slice: Slice) {
        if let Some(second) = slice.second {
            self.merge(second, &slice);
            self.reached[slice.thread] = second + 1;
            self.complete();
        }
        // A thread that is done needs no slice.
        let _ = self.empty[slice.thread].send(Box::new(slice));
    }

    fn merge(&mut self, second: usize, slice: &Slice) {
        let Some(place) = second.checked_sub(self.run.seconds()) else { return };
        while self.pending.len() <= place {
            self.pending.push_back(Pending::new(self.shape));
        }
        let pending = &mut self.pending[place];
        let wholes = pending.commands.iter_mut().chain(&mut pending.nodes);
        for (whole, part) in wholes.zip(slice.commands.iter().chain(&slice.nodes)) {
            whole.add(part);
        }
        self.run.redirected += slice.redirected;
        for (text, count) in &slice.errors {
            add_error(&mut self.run.errors, text, *count);
        }
    }

    /// Moves the seconds that every thread is through with into the run.
    fn complete(&mut self) {
        let through = self.reached.iter().copied().min().unwrap_or(usize::MAX);
        while self.run.seconds() < through {
            let Some(pending) = self.pending.pop_front() else { break };
            let figures = self.run.commands.iter_mut().chain(&mut self.run.nodes);
            for (figures, whole) in figures.zip(pending.commands.iter().chain(&pending.nodes)) {
                whole.append_to(figures, &mut self.serializer);
            }
        }
    }
}

impl Pending {
    fn new(shape: Shape) -> Self {
        Self {
            commands: (0..shape.commands).map(|_| Whole::new(shape.open_loop)).collect(),
            nodes: (0..shape.nodes).map(|_| Whole::new(false)).collect(),
        }
    }
}

impl Whole {
    fn new(open_loop: bool) -> Self {
        Self { counts: Counts::default(), corrected: histogram(), uncorrected: open_loop.then(histogram) }
    }

    fn add(&mut self, part: &Part) {
        const SAME: &str = "all have the same bounds";
        if part.counts == Counts::default() {
            return;
        }
        self.counts.add(&part.counts);
        self.corrected.add(&part.corrected).expect(SAME);
        if let (Some(whole), Some(part)) = (&mut self.uncorrected, &part.uncorrected) {
            whole.add(part).expect(SAME);
        }
    }

    fn append_to(&self, figures: &mut Figures, serializer: &mut V2DeflateSerializer) {
        const SAME: &str = "all have the same bounds";
        figures.total.add(&self.counts);
        if !self.corrected.is_empty() {
            figures.corrected.add(&self.corrected).expect(SAME);
        }
        if let (Some(all), Some(this)) = (&mut figures.uncorrected, &self.uncorrected) {
            all.add(this).expect(SAME);
        }
        let second = Second::of(self.counts, &self.corrected, self.uncorrected.as_ref(), serializer);
        figures.seconds.push(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Setup, Target};

    fn run(rate: Option<f64>) -> Run {
        let setup = Setup { rate, ..Setup::default() };
        Run::new(setup, Target::default(), "mixed", &["SET".into(), "GET".into()], &[])
    }

    fn reply(command: usize, count: u64, corrected_ns: u64) -> Reply {
        Reply { command, node: 0, count, corrected_ns, uncorrected_ns: corrected_ns / 2 }
    }

    #[test]
    fn seconds_of_all_threads_are_put_together() {
        let began = 5 * SECOND_NS;
        let (mut collector, mut recorders) = Collector::new(run(Some(100.0)), 2, began);
        let mut second = recorders.pop().unwrap();
        let mut first = recorders.pop().unwrap();
        first.reply(reply(0, 1000, 1));
        for recorder in [&mut first, &mut second] {
            recorder.turn(began);
            recorder.reply(reply(0, 10, 1_000_000));
            recorder.reply(reply(1, 5, 3_000_000));
        }
        first.error(1, 0, b"ERR no\r\n");
        first.turn(began + SECOND_NS);
        assert!(collector.collect(Duration::ZERO));
        while collector.collect(Duration::ZERO) && collector.reached[0] == 0 {}
        assert_eq!(collector.run().seconds(), 0, "the other thread is still at it");
        // The other one was stuck for two seconds.
        second.turn(began + 3 * SECOND_NS + 1);
        second.reply(reply(1, 1, 3_000_000_000));
        first.finish(began + 3 * SECOND_NS + SECOND_NS / 2);
        second.finish(began + 3 * SECOND_NS + SECOND_NS / 2);
        while collector.collect(Duration::ZERO) {}
        let run = collector.finish(Duration::from_millis(3_500));
        assert_eq!(run.seconds(), 4);
        assert_eq!(run.total(), Counts { requests: 31, errors: 1, ..Counts::default() });
        assert_eq!(run.errors.get("ERR no"), Some(&1));
        let set: Vec<u64> = run.commands[0].seconds.iter().map(|s| s.counts.requests).collect();
        let get: Vec<u64> = run.commands[1].seconds.iter().map(|s| s.counts.requests).collect();
        assert_eq!((set, get), (vec![20, 0, 0, 0], vec![10, 0, 0, 1]));
        assert_eq!(run.width_s(3), 0.5);
        let within = |ns: u64, wanted: u64| ns.abs_diff(wanted) <= wanted / 1000;
        assert!(within(run.commands[1].corrected.max(), 3_000_000_000));
        assert!(within(run.commands[1].uncorrected.as_ref().unwrap().max(), 1_500_000_000));
        assert!(run.commands[0].seconds[1].encoded.is_empty());
    }

    #[test]
    fn a_closed_loop_has_one_histogram_and_slices_come_back() {
        let (mut collector, mut recorders) = Collector::new(run(None), 1, 0);
        let mut recorder = recorders.pop().unwrap();
        for second in 0..10 {
            recorder.turn(second * SECOND_NS);
            recorder.reply(reply(0, 1, 500));
            collector.collect(Duration::ZERO);
        }
        recorder.finish(9 * SECOND_NS + 5);
        while collector.collect(Duration::ZERO) {}
        let run = collector.finish(Duration::from_secs(9));
        assert_eq!((run.total().requests, run.seconds()), (10, 10));
        assert!(run.uncorrected().is_none() && run.commands[0].uncorrected.is_none());
        assert_eq!(run.corrected().len(), 10);
    }

    #[test]
    fn texts_of_errors_are_bounded() {
        let mut errors = BTreeMap::new();
        (0..1000).for_each(|n| add_error(&mut errors, &format!("ERR {n}"), 2));
        assert_eq!(errors.len(), ERROR_TEXTS_MAX + 1);
        assert_eq!(errors.values().sum::<u64>(), 2000);
        assert_eq!(errors[OTHER_ERRORS], 1800);
    }
}
