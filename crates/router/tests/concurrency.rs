//! Many threads, few cores, real shards: what clients may rely on when everything collides.
//!
//! Each thread plays several connections through its own engine and mailbox, as a server thread does, without sockets. Commands yield
//! the CPU at random while they hold their shards, so that holders are preempted and others must post. Seeds are printed;
//! `DARTER_STRESS_SECONDS` sets how long the contention test runs.

mod world;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use command::{CommandError, Effect};
use resp::{Args, OwnedArgs, Proto, Reply};
use router::engine::{Call, Engine, Ran, Sent};
use router::task::{Outcome, Queued, Stamped, Watched, Work};
use shard::exec::Exec;
use shard::plan::{self, Plan};
use stdx::rng::Rng;
use world::{PATIENCE, World, seed};

/// One thread that plays connections one command at a time.
struct Player<'w> {
    world: &'w World,
    engine: Engine,
    /// Commands whose replies have not come yet, by connection.
    waiting: HashMap<u64, Instant>,
}

impl<'w> Player<'w> {
    fn new(world: &'w World, thread: u16, seed: u64, journaling: bool) -> Self {
        Self { world, engine: world.engine(thread, seed, journaling), waiting: HashMap::new() }
    }

    /// Runs a command of a connection; its reply, unless it was posted.
    fn send(
        &mut self,
        connection: u64,
        plan: &Plan,
        keys: &'static [command::KeySpec],
        words: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let args = OwnedArgs::from_words(words);
        let mut reply = Reply::new(Proto::Resp2);
        let call = Call { plan, keys, args: args.as_args(), db: 0, hint: None, connection, caching: None };
        match self.engine.run(call, &mut reply) {
            Ran::Done | Ran::Failed => Some(reply.bytes),
            Ran::Waits(_) => panic!("none of these commands waits"),
            Ran::Posted => {
                self.waiting.insert(connection, Instant::now());
                None
            }
        }
    }

    /// Runs a transaction of a connection; its replies, unless it was posted.
    fn transaction(
        &mut self,
        connection: u64,
        commands: &[&[&[u8]]],
        watched: Option<Watched>,
    ) -> Option<(Outcome, Vec<u8>)> {
        let rows: Vec<_> = commands.iter().map(|words| self.world.plan(words[0])).collect();
        let keys: Vec<_> = rows.iter().map(|(spec, _)| spec.keys).collect();
        let queued: Vec<Queued> = rows
            .iter()
            .zip(commands)
            .map(|((_, plan), words)| Queued {
                plan: *plan,
                args: OwnedArgs::from_words(*words),
                db: 0,
                caching: None,
                program: None,
            })
            .collect();
        let ids = self.engine.shards_of(&keys, &queued, watched.as_ref());
        let task =
            self.engine.task(connection, Work::Transaction(queued, watched), &Reply::new(Proto::Resp2));
        match self.engine.submit(task, &ids) {
            Sent::Back(mut task) => {
                self.engine.absorb(&mut task);
                Some((task.outcome, task.reply.bytes))
            }
            Sent::Posted => {
                self.waiting.insert(connection, Instant::now());
                None
            }
        }
    }

    /// Tasks that have come back: connection, outcome, reply.
    fn replies(&mut self) -> Vec<(u64, Outcome, Vec<u8>)> {
        self.engine.drain_duty();
        let mail = self.world.mailboxes[usize::from(self.engine.thread)].take();
        let mut replies = Vec::new();
        for task in mail {
            let Sent::Back(mut task) = self.engine.resume(task) else { continue };
            self.engine.absorb(&mut task);
            let connection = task.ticket.connection;
            assert!(self.waiting.remove(&connection).is_some(), "connection {connection} got a second reply");
            replies.push((connection, task.outcome, task.reply.bytes));
        }
        for (connection, since) in &self.waiting {
            assert!(since.elapsed() < PATIENCE, "the reply of connection {connection} is stranded");
        }
        replies
    }

    /// Waits for what is under way; then the thread owes nothing to others.
    fn settle(&mut self, everybody_stopped: impl Fn() -> bool) -> Vec<(u64, Outcome, Vec<u8>)> {
        let mut all = Vec::new();
        while !self.waiting.is_empty() || self.engine.has_duty() || !everybody_stopped() {
            all.extend(self.replies());
            thread::yield_now();
        }
        all
    }
}

thread_local! {
    static CHANCE: std::cell::RefCell<Rng> = std::cell::RefCell::new(Rng::new(std::process::id().into()));
}

/// Lets other threads run, now and then, while shards are held.
fn stumble() {
    if CHANCE.with(|chance| chance.borrow_mut().one_in(8)) {
        thread::yield_now();
    }
}

/// `SET key value GET`, slowly.
fn slow_set_get(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    stumble();
    let result = run_of(b"SET")(cx, args, reply);
    stumble();
    result
}

fn slow_mset(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    stumble();
    run_of(b"MSET")(cx, args, reply)
}

fn run_of(name: &[u8]) -> plan::Run {
    let rows = commands::FAMILIES.iter().flat_map(|family| family.iter());
    let row = rows.into_iter().find(|row| row.spec.name.as_bytes() == name).expect("the command is there");
    match row.run {
        Plan::Keys(run) | Plan::Every(run) => run,
        _ => panic!("a plan with one function"),
    }
}

fn stress_time() -> Duration {
    let seconds = std::env::var("DARTER_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// The bulk of `$3\r\nabc\r\n`, none for a null.
fn bulk(reply: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(reply).expect("the values are text");
    let (head, rest) = text.split_once("\r\n").expect("a reply has lines");
    match head {
        "$-1" => None,
        _ => {
            let len: usize = head.strip_prefix('$').expect("a bulk").parse().expect("a length");
            assert_eq!(rest.len(), len + 2, "one reply and nothing else: {text:?}");
            Some(rest[..len].to_owned())
        }
    }
}

/// Connections that each thread of the contention test plays.
const CONNECTIONS: u64 = 8;

/// One connection of the contention test.
#[derive(Default)]
struct Contender {
    /// The number it wrote last.
    number: u64,
    /// The last number that it saw of every other connection.
    seen: HashMap<u64, u64>,
    /// The reply it waits for is that of a write to the hot key.
    hot: bool,
}

impl Contender {
    /// Of every writer it must see ascending numbers.
    fn check(&mut self, reply: &[u8]) {
        let Some(before) = bulk(reply) else { return };
        let (writer, number) = before.split_once(':').expect("only such values are written");
        let (writer, number): (u64, u64) = (writer.parse().expect("id"), number.parse().expect("number"));
        let last = self.seen.entry(writer).or_default();
        assert!(number >= *last, "writer {writer}: {number} seen after {last}");
        *last = number;
    }
}

/// What the threads of the contention test share.
#[derive(Default)]
struct Contest {
    stop: AtomicBool,
    playing: AtomicU64,
    done: AtomicU64,
    posted: AtomicU64,
}

/// Plays one thread of the contention test until it is stopped.
fn contend(world: &World, contest: &Contest, thread: u16, seed: u64) {
    let mut rng = Rng::new(seed ^ u64::from(thread) << 32);
    let mut player = Player::new(world, thread, rng.next_u64(), false);
    let mut contenders: Vec<Contender> = (0..CONNECTIONS).map(|_| Contender::default()).collect();
    let mut flush_due = Instant::now();
    while !contest.stop.load(Ordering::Relaxed) {
        for (connection, contender) in (0..).zip(&mut contenders) {
            if player.waiting.contains_key(&connection) {
                continue;
            }
            let flush = thread == 0 && flush_due <= Instant::now();
            contender.hot = !flush && rng.below(100) < 90;
            if flush {
                flush_due = Instant::now() + Duration::from_millis(100);
                let (spec, plan) = world.plan(b"FLUSHALL");
                player.send(connection, &plan, spec.keys, &[b"FLUSHALL"]);
            } else if contender.hot {
                contender.number += 1;
                let id = u64::from(thread) * CONNECTIONS + connection;
                let value = format!("{id}:{}", contender.number);
                let words: [&[u8]; 4] = [b"SET", b"hot", value.as_bytes(), b"GET"];
                let keys = world.plan(b"SET").0.keys;
                if let Some(reply) = player.send(connection, &Plan::Keys(slow_set_get), keys, &words) {
                    contender.check(&reply);
                }
            } else {
                write_everywhere(&mut player, connection);
            }
            contest.done.fetch_add(1, Ordering::Relaxed);
        }
        if player.waiting.len() as u64 == CONNECTIONS {
            // A server thread would sleep now.
            thread::yield_now();
        }
        for (connection, outcome, reply) in player.replies() {
            assert_eq!(outcome, Outcome::Done);
            contest.posted.fetch_add(1, Ordering::Relaxed);
            let contender = &mut contenders[connection as usize];
            if contender.hot {
                contender.check(&reply);
            }
        }
    }
    contest.playing.fetch_sub(1, Ordering::Relaxed);
    player.settle(|| contest.playing.load(Ordering::Relaxed) == 0);
}

/// An MSET of keys in all shards.
fn write_everywhere(player: &mut Player<'_>, connection: u64) {
    let keys: Vec<Vec<u8>> = (0..64).map(|n| format!("k{n}").into_bytes()).collect();
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    for key in &keys {
        words.extend([key.as_slice(), b"v".as_slice()]);
    }
    let specs = player.world.plan(b"MSET").0.keys;
    player.send(connection, &Plan::Keys(slow_mset), specs, &words);
}

/// 16 threads, 90 % of the traffic on one key, MSETs over all shards, FLUSHALL every 100 ms. Every connection writes ascending numbers
/// to the hot key and reads what was there before: of every other connection it must see ascending numbers.
#[test]
fn contention_strands_and_reorders_nothing() {
    const THREADS: u16 = 16;
    let seed = seed();
    let world = World::new(usize::from(THREADS));
    let contest = Contest { playing: AtomicU64::new(u64::from(THREADS)), ..Contest::default() };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, contest) = (&world, &contest);
            scope.spawn(move || contend(world, contest, thread, seed));
        }
        thread::sleep(stress_time());
        contest.stop.store(true, Ordering::Relaxed);
    });
    let (done, posted) = (contest.done.into_inner(), contest.posted.into_inner());
    println!("{done} commands, {posted} of them posted");
    assert!(done > 1_000, "the threads got somewhere");
    assert!(posted > 0, "the test is about shards that are busy");
}

/// Transfers by EXEC, sums by MGET: no reader ever sees a wrong total. The journals of all threads, merged by their stamps and replayed
/// into an empty server, give the same accounts.
#[test]
fn transfers_are_atomic_and_their_journal_replays() {
    const THREADS: u16 = 8;
    const ACCOUNTS: u64 = 24;
    const START: i64 = 1_000;
    let seed = seed();
    let world = World::new(usize::from(THREADS));
    let accounts: Vec<Vec<u8>> = (0..ACCOUNTS).map(|n| format!("account:{n}").into_bytes()).collect();
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    for account in &accounts {
        words.extend([account.as_slice(), b"1000".as_slice()]);
    }
    let mut journal = Vec::new();
    let mut first = Player::new(&world, 0, seed, true);
    let (spec, mset) = world.plan(b"MSET");
    assert!(first.send(0, &mset, spec.keys, &words).is_some(), "nobody else is there");
    journal.append(&mut first.engine.journal);
    drop(first);
    let playing = AtomicU64::new(u64::from(THREADS));
    let read = AtomicU64::new(0);
    let total = |reply: &[u8]| -> i64 {
        let text = std::str::from_utf8(reply).expect("numbers are text");
        text.split("\r\n").skip(2).step_by(2).filter_map(|line| line.parse::<i64>().ok()).sum()
    };
    let journals = thread::scope(|scope| {
        let play = |thread: u16| {
            let (world, accounts, playing, read) = (&world, &accounts, &playing, &read);
            move || {
                let mut rng = Rng::new(seed ^ u64::from(thread) << 40);
                let mut player = Player::new(world, thread, rng.next_u64(), true);
                let (spec, mget) = world.plan(b"MGET");
                let mut all: Vec<&[u8]> = vec![b"MGET"];
                all.extend(accounts.iter().map(Vec::as_slice));
                let started = Instant::now();
                while started.elapsed() < Duration::from_millis(1500) {
                    // Connection 0 transfers, connection 1 reads.
                    if !player.waiting.contains_key(&0) {
                        let (from, to) =
                            (rng.pick(accounts).expect("some"), rng.pick(accounts).expect("some"));
                        let amount = rng.below(50).to_string();
                        let take: [&[u8]; 3] = [b"DECRBY", from, amount.as_bytes()];
                        let give: [&[u8]; 3] = [b"INCRBY", to, amount.as_bytes()];
                        player.transaction(0, &[&take, &give], None);
                    }
                    if !player.waiting.contains_key(&1)
                        && rng.one_in(4)
                        && let Some(reply) = player.send(1, &mget, spec.keys, &all)
                    {
                        assert_eq!(total(&reply), ACCOUNTS as i64 * START);
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                    for (connection, outcome, reply) in player.replies() {
                        assert_eq!(outcome, Outcome::Done);
                        if connection == 1 {
                            assert_eq!(total(&reply), ACCOUNTS as i64 * START);
                            read.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                playing.fetch_sub(1, Ordering::Relaxed);
                player.settle(|| playing.load(Ordering::Relaxed) == 0);
                std::mem::take(&mut player.engine.journal)
            }
        };
        let handles: Vec<_> = (0..THREADS).map(|thread| scope.spawn(play(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no assertion failed")).collect::<Vec<_>>()
    });
    journal.extend(journals.into_iter().flatten());
    println!("{} records, {} totals read", journal.len(), read.load(Ordering::Relaxed));
    assert!(read.load(Ordering::Relaxed) > 100);
    assert_eq!(balances(&world, &accounts), replayed(journal, &accounts));
}

fn balances(world: &World, accounts: &[Vec<u8>]) -> BTreeMap<Vec<u8>, Option<String>> {
    let mut player = Player::new(world, 0, 1, false);
    let (spec, get) = world.plan(b"GET");
    let balance = |player: &mut Player<'_>, account: &Vec<u8>| {
        bulk(&player.send(0, &get, spec.keys, &[b"GET", account]).expect("nobody else is there"))
    };
    accounts.iter().map(|account| (account.clone(), balance(&mut player, account))).collect()
}

/// Replays a journal into an empty world.
fn replayed(mut journal: Vec<Stamped>, accounts: &[Vec<u8>]) -> BTreeMap<Vec<u8>, Option<String>> {
    journal.sort_by_key(|stamped| stamped.stamp);
    let world = World::new(1);
    let mut player = Player::new(&world, 0, 1, false);
    for (_, record) in journal.into_iter().flat_map(|stamped| stamped.records) {
        let words: Vec<&[u8]> = record.iter().map(Vec::as_slice).collect();
        let (spec, plan) = world.plan(words[0]);
        player.send(0, &plan, spec.keys, &words);
    }
    balances(&world, accounts)
}

/// EXEC after WATCH happens only if nobody changed the key in between: a counter raised by optimistic locking loses nothing.
#[test]
fn watched_counters_lose_no_increment() {
    const THREADS: u16 = 6;
    const RAISES: u64 = 200;
    let seed = seed();
    let world = World::new(usize::from(THREADS));
    let playing = AtomicU64::new(u64::from(THREADS));
    let aborted = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, playing, aborted) = (&world, &playing, &aborted);
            scope.spawn(move || {
                let mut player = Player::new(world, thread, seed ^ u64::from(thread), false);
                let (spec, get) = world.plan(b"GET");
                let mut raised = 0;
                while raised < RAISES {
                    let watched = watch(&mut player, b"counter");
                    let words: [&[u8]; 2] = [b"GET", b"counter"];
                    let reply = player.send(0, &get, spec.keys, &words);
                    let before = reply.unwrap_or_else(|| one_reply(&mut player).1);
                    let value = bulk(&before).map_or(0, |text| text.parse::<u64>().expect("a number")) + 1;
                    thread::yield_now();
                    let value = value.to_string();
                    let set: [&[u8]; 3] = [b"SET", b"counter", value.as_bytes()];
                    let outcome = match player.transaction(0, &[&set], Some(watched)) {
                        Some((outcome, _)) => outcome,
                        None => one_reply(&mut player).0,
                    };
                    match outcome {
                        Outcome::Done => raised += 1,
                        Outcome::Aborted => {
                            aborted.fetch_add(1, Ordering::Relaxed);
                        }
                        other => panic!("{other:?}"),
                    }
                }
                playing.fetch_sub(1, Ordering::Relaxed);
                player.settle(|| playing.load(Ordering::Relaxed) == 0);
            });
        }
    });
    println!("{} transactions aborted", aborted.into_inner());
    let counter = balances(&world, &[b"counter".to_vec()]);
    assert_eq!(counter[b"counter".as_slice()], Some((u64::from(THREADS) * RAISES).to_string()));
}

fn one_reply(player: &mut Player<'_>) -> (Outcome, Vec<u8>) {
    loop {
        if let Some((_, outcome, reply)) = player.replies().pop() {
            return (outcome, reply);
        }
        thread::yield_now();
    }
}

/// WATCH of one key: goes through the mailbox if the shard is busy, as every task.
fn watch(player: &mut Player<'_>, key: &[u8]) -> Watched {
    use router::task::WatchedKey;
    let keys = vec![WatchedKey { db: 0, key: key.to_vec(), expired: false }];
    let watched = Watched { keys, dirty: Arc::default() };
    let ids = player.engine.shards_of_keys(std::iter::once(key));
    let work = Work::Watch { watched: watched.clone(), from: 0 };
    let task = player.engine.task(0, work, &Reply::new(Proto::Resp2));
    if let Sent::Posted = player.engine.submit(task, &ids) {
        player.waiting.insert(0, Instant::now());
        one_reply(player);
    }
    watched
}
