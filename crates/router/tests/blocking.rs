//! Commands that wait, on real shards, with threads that push, pop, wait, give up and go at one moment: who is served, by whom, and what the
//! journal says of it. Not sockets and timers; the commands are small ones of this test. Seeds are printed.
//!
//! A queue of this test is a collection of numbers: `PUSH key n`, `POP key`, `TAKE key...` (waits), `PAIR key...` (waits for
//! two in one queue: often in vain), `SHIFT from to` (waits, needs both).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use command::{CommandError, Effect, KeyFlags, KeySpec};
use resp::{Args, OwnedArgs, Proto, Reply};
use router::engine::{Call, Engine, Ran, Sent};
use router::task::{Queued, Stamped, Task, Work};
use router::waiting::Blocked;
use shard::exec::Exec;
use shard::keyspace::Key;
use shard::plan::{Attempted, Blocking, Plan, Wait};
use shard::waiter::Claim;
use stdx::rng::Rng;
use types::{Form, Type, View};
use world::{PATIENCE, World, seed};

mod world;

const KEYS: &[KeySpec] = &[KeySpec::all_from_first(1, KeyFlags::RW)];
const FIRST: &[KeySpec] = &[KeySpec::first(KeyFlags::RW)];
const PUSH: Plan = Plan::Keys(push);
const POP: Plan = Plan::Keys(pop);
const TAKE: Plan = Plan::Blocking(&Blocking {
    attempt: take,
    wants: Type::List,
    on_nokey: false,
    whole: false,
    null: Reply::null_array,
});
const SHIFT: Plan = Plan::Blocking(&Blocking {
    attempt: shift,
    wants: Type::List,
    on_nokey: false,
    whole: true,
    null: Reply::null,
});

const PAIR: Plan = Plan::Blocking(&Blocking {
    attempt: pair,
    wants: Type::List,
    on_nokey: false,
    whole: false,
    null: Reply::null_array,
});

/// Gives up the processor now and then while shards are held.
fn stumble(cx: &mut Exec<'_>) {
    if cx.rng.one_in(8) {
        thread::yield_now();
    }
}

fn append(cx: &mut Exec<'_>, key: Key<'_>, number: u32) {
    if let Some(mut slot) = cx.slot(key, Type::List).expect("only queues are there") {
        let at = slot.packed().len();
        slot.resize(at + 4)[at..].copy_from_slice(&number.to_le_bytes());
    } else {
        let mut packed = vec![Form::ListListpack as u8];
        packed.extend(number.to_le_bytes());
        cx.create(key, &packed);
    }
    cx.changed(key);
    cx.ready(key);
}

fn take_first(cx: &mut Exec<'_>, key: Key<'_>) -> Option<u32> {
    let mut slot = cx.slot(key, Type::List).expect("only queues are there")?;
    let bytes = *slot.packed()[1..].first_chunk::<4>().expect("no queue is empty");
    slot.splice(1, 4, 0);
    let empty = slot.packed().len() == 1;
    drop(slot);
    cx.changed(key);
    if empty {
        cx.keyspace(key).remove(key);
    }
    Some(u32::from_le_bytes(bytes))
}

fn push(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    stumble(cx);
    append(cx, cx.key(args, 1), number(&args[2]));
    reply.ok();
    Ok(Effect::AsIs)
}

fn pop(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    stumble(cx);
    let key = cx.key(args, 1);
    let Some(taken) = take_first(cx, key) else {
        reply.null();
        return Ok(Effect::None);
    };
    reply.int(taken.into());
    Ok(popped(cx, key, taken))
}

fn popped(cx: &Exec<'_>, key: Key<'_>, taken: u32) -> Effect {
    cx.rewritten(|| vec![vec![b"POP".to_vec(), key.bytes.to_vec(), taken.to_string().into_bytes()]])
}

fn take(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    stumble(cx);
    for at in 1..args.len() {
        let key = cx.key(args, at);
        if cx.holds(key)
            && !cx.is_promised(key)
            && let Some(taken) = take_first(cx, key)
        {
            reply.int(taken.into());
            return Ok(Attempted::Done(popped(cx, key, taken)));
        }
    }
    Ok(Attempted::Wait(Wait { effect: Effect::None, until_ms: None, words: None }))
}

fn pair(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    stumble(cx);
    for at in 1..args.len() {
        let key = cx.key(args, at);
        let len = match cx.holds(key) {
            true => cx.find_view(key, Type::List).expect("only queues are there").map_or(0, bytes_of),
            false => 0,
        };
        stumble(cx);
        if len > 2 * 4 {
            let taken = [0; 2].map(|_| take_first(cx, key).expect("there are two"));
            reply.array(2);
            taken.iter().for_each(|number| reply.int((*number).into()));
            let pop =
                |number: u32| vec![b"POP".to_vec(), key.bytes.to_vec(), number.to_string().into_bytes()];
            return Ok(Attempted::Done(cx.rewritten(|| taken.map(pop).to_vec())));
        }
    }
    Ok(Attempted::Wait(Wait { effect: Effect::None, until_ms: None, words: None }))
}

fn bytes_of(view: View<'_>) -> usize {
    match view {
        View::Packed(bytes) => bytes.len(),
        _ => panic!("queues are packed"),
    }
}

fn shift(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Attempted, CommandError> {
    stumble(cx);
    let (from, to) = (cx.key(args, 1), cx.key(args, 2));
    let Some(taken) = take_first(cx, from) else {
        return Ok(Attempted::Wait(Wait { effect: Effect::None, until_ms: None, words: None }));
    };
    append(cx, to, taken);
    reply.simple("shifted");
    let number = taken.to_string().into_bytes();
    let records = || {
        vec![
            vec![b"POP".to_vec(), from.bytes.to_vec(), number.clone()],
            vec![b"PUSH".to_vec(), to.bytes.to_vec(), number.clone()],
        ]
    };
    Ok(Attempted::Done(cx.rewritten(records)))
}

fn number(text: &[u8]) -> u32 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}

/// What a connection waits for.
enum Waits {
    Task(Instant),
    Blocked(Blocked),
}

/// One thread and its connections.
struct Player<'w> {
    world: &'w World,
    engine: Engine,
    waiting: HashMap<u64, Waits>,
    /// Clients that have gone: what is served to them is lost, but must be known.
    gone: BTreeSet<u64>,
    /// Numbers that came in replies, and the connections that got them, in that order.
    taken: Vec<(u64, u32)>,
    connection_last: u64,
}

impl<'w> Player<'w> {
    fn new(world: &'w World, thread: u16, seed: u64) -> Self {
        let engine = world.engine(thread, seed, true);
        Self {
            world,
            engine,
            waiting: HashMap::new(),
            gone: BTreeSet::new(),
            taken: Vec::new(),
            connection_last: 0,
        }
    }

    /// Runs a command of a new connection, whose name is given back.
    fn send(&mut self, plan: &'static Plan, words: &[&str]) -> u64 {
        self.connection_last += 1;
        let connection = self.connection_last;
        let args = OwnedArgs::from_words(words);
        let mut reply = Reply::new(Proto::Resp2);
        let keys = if matches!(plan, Plan::Keys(_)) { FIRST } else { KEYS };
        let call = Call { plan, keys, args: args.as_args(), db: 0, hint: None, connection, caching: None };
        match self.engine.run(call, &mut reply) {
            Ran::Done | Ran::Failed => self.note(connection, &reply.bytes),
            Ran::Posted => {
                self.waiting.insert(connection, Waits::Task(Instant::now()));
            }
            Ran::Waits(blocked) => {
                self.waiting.insert(connection, Waits::Blocked(*blocked));
            }
        }
        connection
    }

    /// Pushes numbers to keys in one transaction.
    fn push_all(&mut self, pushes: &[(&str, u32)]) {
        self.connection_last += 1;
        let queued: Vec<Queued> = pushes
            .iter()
            .map(|(key, number)| {
                let args = OwnedArgs::from_words(["PUSH", key, &number.to_string()]);
                Queued { plan: PUSH, args, db: 0, caching: None, program: None }
            })
            .collect();
        let ids = self.engine.shards_of(&vec![FIRST; queued.len()], &queued, None);
        let work = Work::Transaction(queued, None);
        let task = self.engine.task(self.connection_last, work, &Reply::new(Proto::Resp2));
        match self.engine.submit(task, &ids) {
            Sent::Back(mut task) => self.engine.absorb(&mut task),
            Sent::Posted => {
                self.waiting.insert(self.connection_last, Waits::Task(Instant::now()));
            }
        }
    }

    fn note(&mut self, connection: u64, reply: &[u8]) {
        for line in reply.split(|byte| *byte == b'\n') {
            if let Some(text) = line.strip_prefix(b":") {
                self.taken.push((connection, number(text.trim_ascii_end())));
            }
        }
    }

    /// Reads the mail and does what the thread owes.
    fn turn(&mut self) {
        self.engine.drain_duty();
        for task in self.world.mailboxes[usize::from(self.engine.thread)].take() {
            let Sent::Back(mut task) = self.engine.resume(task) else { continue };
            self.engine.absorb(&mut task);
            self.finished(*task);
        }
        for (connection, waits) in &self.waiting {
            if let Waits::Task(since) = waits {
                assert!(since.elapsed() < PATIENCE, "the reply of connection {connection} is stranded");
            }
        }
    }

    fn finished(&mut self, task: Task) {
        let connection = task.ticket.connection;
        match task.work {
            Work::Retry(_) => {}
            Work::Blocking { blocked: Some(blocked), .. } => {
                let waits = self.waiting.insert(connection, Waits::Blocked(blocked));
                assert!(matches!(waits, Some(Waits::Task(_))), "it waits before it was asked");
            }
            Work::Served { waiter, elsewhere } => {
                if elsewhere {
                    self.engine.leave(waiter);
                }
                let gone = self.gone.remove(&connection);
                let waits = self.waiting.remove(&connection);
                assert!(
                    gone || matches!(waits, Some(Waits::Blocked(_))),
                    "connection {connection} was not blocked"
                );
                self.note(connection, &task.reply.bytes);
            }
            _ => {
                let waits = self.waiting.remove(&connection);
                assert!(matches!(waits, Some(Waits::Task(_))), "connection {connection} got a second reply");
                self.note(connection, &task.reply.bytes);
            }
        }
    }

    /// The time of a connection is over. False: it is being served.
    fn cancel(&mut self, connection: u64) -> bool {
        let Some(Waits::Blocked(blocked)) = self.waiting.get(&connection) else { return true };
        let waiter = Arc::clone(&blocked.waiter);
        match waiter.settle.cancel() {
            Claim::Mine => {
                self.waiting.remove(&connection);
                self.engine.leave(waiter);
                true
            }
            Claim::Settled => true,
            Claim::Busy => false,
        }
    }

    /// The client of a connection goes.
    fn abandon(&mut self, connection: u64) {
        let Some(Waits::Blocked(blocked)) = self.waiting.remove(&connection) else {
            panic!("only blocked clients go in this test")
        };
        blocked.waiter.settle.settle();
        self.gone.insert(connection);
        self.engine.leave(blocked.waiter);
    }

    fn blocked(&self) -> Vec<u64> {
        let blocked = self.waiting.iter().filter(|(_, waits)| matches!(waits, Waits::Blocked(_)));
        blocked.map(|(connection, _)| *connection).collect()
    }

    fn expects_mail(&self) -> bool {
        self.waiting.values().any(|waits| matches!(waits, Waits::Task(_)))
    }
}

/// Two keys whose shards differ.
fn keys_of_two_shards(world: &World) -> (String, String) {
    let first = "key:0".to_owned();
    let shard = world.layout.shard_of(first.as_bytes());
    let other = (1..).map(|n| format!("key:{n}")).find(|key| world.layout.shard_of(key.as_bytes()) != shard);
    (first, other.expect("there are several shards"))
}

#[test]
fn first_waiting_first_served_over_threads() {
    let world = World::new(3);
    let (a, b) = keys_of_two_shards(&world);
    let mut players: Vec<Player<'_>> = (0..3).map(|thread| Player::new(&world, thread, 1)).collect();
    let order: Vec<(usize, u64)> =
        (0..12).map(|nth| (nth % 3, players[nth % 3].send(&TAKE, &["TAKE", &a, &b]))).collect();
    // One by one from the first key, then several at once from the second, then within a transaction.
    for number in 0..4 {
        players[0].send(&PUSH, &["PUSH", &a, &number.to_string()]);
    }
    let pushes: Vec<(&str, u32)> = (4..12).map(|number| (b.as_str(), number)).collect();
    players[1].push_all(&pushes);
    players.iter_mut().for_each(Player::turn);
    for (number, (thread, connection)) in order.into_iter().enumerate() {
        assert!(players[thread].taken.contains(&(connection, number as u32)), "{number} went to another");
    }
    assert_eq!(world.published.waited_for(), (0, 0));
    assert_eq!(world.published.keys(0), 0);
}

#[test]
fn a_chain_over_all_shards_runs_through() {
    let world = World::new(2);
    let mut players: Vec<Player<'_>> = (0..2).map(|thread| Player::new(&world, thread, 1)).collect();
    let name = |n: usize| format!("key:{n}");
    for n in 0..200 {
        players[n % 2].send(&SHIFT, &["SHIFT", &name(n), &name(n + 1)]);
    }
    players[0].send(&PUSH, &["PUSH", &name(0), "7"]);
    while players.iter().any(|player| !player.blocked().is_empty() || player.engine.has_duty()) {
        players.iter_mut().for_each(Player::turn);
    }
    players[0].send(&POP, &["POP", &name(200)]);
    assert_eq!(players[0].taken.last().map(|(_, number)| *number), Some(7));
}

/// What is behind one that is deferred waits for it, and is served in its turn.
#[test]
fn who_stands_behind_a_shift_keeps_the_order() {
    let world = World::new(1);
    let (a, b) = keys_of_two_shards(&world);
    let mut player = Player::new(&world, 0, 1);
    player.send(&SHIFT, &["SHIFT", &a, &b]);
    let second = player.send(&TAKE, &["TAKE", &a]);
    let third = player.send(&TAKE, &["TAKE", &a]);
    player.push_all(&[(&a, 1), (&a, 2), (&a, 3)]);
    player.turn();
    assert_eq!(player.taken, [(second, 2), (third, 3)]);
    player.send(&POP, &["POP", &b]);
    assert_eq!(player.taken.last().map(|(_, number)| *number), Some(1));
}

/// Many who wait are served in their order, some in each turn; who comes meanwhile stands behind them.
#[test]
fn many_are_served_in_turns() {
    const MANY: u32 = 500;
    let world = World::new(1);
    let (a, _) = keys_of_two_shards(&world);
    let mut player = Player::new(&world, 0, 1);
    let mut order: Vec<u64> = (0..MANY).map(|_| player.send(&TAKE, &["TAKE", &a])).collect();
    let pushes: Vec<(&str, u32)> = (0..=MANY).map(|number| (a.as_str(), number)).collect();
    player.push_all(&pushes);
    assert!(player.engine.has_duty(), "not all are served at once");
    order.push(player.send(&TAKE, &["TAKE", &a]));
    let mut turns = 0;
    while player.engine.has_duty() {
        let before = player.taken.len();
        player.turn();
        assert!(player.taken.len() - before <= 100, "a turn serves a bounded number");
        turns += 1;
    }
    player.turn();
    assert!(turns > 5, "{turns} turns");
    let taken: Vec<(u64, u32)> = order.into_iter().zip(0..).collect();
    assert_eq!(player.taken, taken);
    assert_eq!(world.published.waited_for(), (0, 0));
}

#[test]
fn who_has_gone_takes_nothing() {
    let world = World::new(1);
    let (a, b) = keys_of_two_shards(&world);
    let mut player = Player::new(&world, 0, 1);
    let gone = player.send(&TAKE, &["TAKE", &a, &b]);
    let late = player.send(&TAKE, &["TAKE", &b, &a]);
    let stays = player.send(&TAKE, &["TAKE", &a]);
    player.abandon(gone);
    assert!(player.cancel(late));
    player.send(&PUSH, &["PUSH", &a, "1"]);
    player.send(&PUSH, &["PUSH", &b, "2"]);
    player.turn();
    assert_eq!(player.taken, [(stays, 1)]);
    assert_eq!(world.published.waited_for(), (0, 0));
}

const THREADS: u16 = 4;
const QUEUES: u64 = 8;
const BLOCKED_MAX: usize = 12;

/// Turns of all players after which nothing is under way: more than tasks that follow from one another.
const ROUNDS: usize = 200;

/// Plays one thread until the deadline. The player, and how many numbers it has pushed.
fn storm_thread(world: &World, thread: u16, seed: u64, deadline: Instant) -> (Player<'_>, u32) {
    let mut rng = Rng::new(seed ^ u64::from(thread) << 32);
    let mut player = Player::new(world, thread, rng.next_u64());
    let mut pushed = 0;
    let key = |rng: &mut Rng| format!("queue:{}", rng.below(QUEUES));
    let next = |pushed: &mut u32| {
        *pushed += 1;
        u32::from(thread) << 24 | *pushed
    };
    while Instant::now() < deadline {
        let (a, b, c) = (key(&mut rng), key(&mut rng), key(&mut rng));
        let blocked = player.blocked();
        match rng.below(10) {
            0..3 => {
                let number = next(&mut pushed);
                player.send(&PUSH, &["PUSH", &a, &number.to_string()]);
            }
            3 => {
                let (first, second) = (next(&mut pushed), next(&mut pushed));
                player.push_all(&[(&a, first), (&b, second)]);
            }
            4 => {
                player.send(&POP, &["POP", &a]);
            }
            5..8 if blocked.len() < BLOCKED_MAX => {
                let (plan, name) = if rng.one_in(3) { (&PAIR, "PAIR") } else { (&TAKE, "TAKE") };
                let words = [name, &a, &b, &c];
                player.send(plan, &words[..2 + rng.below(3) as usize]);
            }
            8 if blocked.len() < BLOCKED_MAX => {
                player.send(&SHIFT, &["SHIFT", &a, &b]);
            }
            _ if blocked.is_empty() => {}
            _ => {
                let chosen = blocked[rng.below(blocked.len() as u64) as usize];
                if rng.one_in(2) {
                    player.abandon(chosen);
                } else {
                    player.cancel(chosen);
                }
            }
        }
        player.turn();
    }
    // Others may still need what this thread holds.
    while player.expects_mail() || player.engine.has_duty() {
        player.turn();
        thread::yield_now();
    }
    (player, pushed)
}

fn nobody_waits_for_what_is_there(world: &World, player: &mut Player<'_>) {
    for queue in 0..QUEUES {
        let bytes = format!("queue:{queue}").into_bytes();
        let key = world.layout.key(&bytes);
        let shards = &player.engine.shards;
        let looked = shards.with_one(key.shard, &mut player.engine.duty, |data| {
            let keyspace = data.keyspace(0);
            let view = keyspace.find(key).and_then(|entry| entry.collection());
            let there = view.map_or(0, |view| (bytes_of(view) - 1) / 4);
            let waiters = (0..).map_while(|at| keyspace.waits().at(key.bytes, at)).map(|place| place.waiter);
            let waiting = waiters.filter(|waiter| !waiter.settle.is_settled());
            let wanted = |name: &[u8]| if name == b"PAIR" { 2 } else { 1 };
            (there, waiting.map(|waiter| wanted(&waiter.words.as_args()[0])).min())
        });
        let (there, wanted) = looked.expect("everybody else stands still");
        assert!(
            wanted.is_none_or(|wanted| wanted > there),
            "{there} are in queue {queue}, {wanted:?} are wanted"
        );
    }
}

/// Everything at once, on four threads: every number is taken once or is left, nobody waits for what is there, and the journal, replayed, gives
/// the same queues, each pop taking the very number that was taken.
#[test]
fn a_storm_loses_nothing_and_the_journal_knows() {
    let seed = seed();
    let seconds = std::env::var("DARTER_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let world = World::new(usize::from(THREADS));
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let (mut players, pushed): (Vec<Player<'_>>, Vec<u32>) = thread::scope(|scope| {
        let world = &world;
        let start = |number| scope.spawn(move || storm_thread(world, number, seed, deadline));
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).unzip()
    });
    let pushed: u32 = pushed.iter().sum();
    (0..ROUNDS).for_each(|_| players.iter_mut().for_each(Player::turn));
    nobody_waits_for_what_is_there(&world, &mut players[0]);
    for player in &mut players {
        let blocked = player.blocked();
        assert!(blocked.into_iter().all(|connection| player.cancel(connection)), "nobody serves any more");
    }
    (0..ROUNDS).for_each(|_| players.iter_mut().for_each(Player::turn));
    let still: usize = players.iter().map(|player| player.waiting.len()).sum();
    assert_eq!(still, 0, "somebody's wait does not end");
    let taken: Vec<u32> =
        players.iter().flat_map(|player| player.taken.iter().map(|(_, number)| *number)).collect();
    let journals: Vec<Vec<Stamped>> =
        players.iter_mut().map(|player| std::mem::take(&mut player.engine.journal)).collect();
    drop(players);
    let mut last = Player::new(&world, 0, seed);
    last.turn();
    let mut left: BTreeMap<Vec<u8>, VecDeque<u32>> = BTreeMap::new();
    for queue in 0..QUEUES {
        let key = format!("queue:{queue}");
        loop {
            let before = last.taken.len();
            last.send(&POP, &["POP", &key]);
            if last.taken.len() == before {
                break;
            }
            left.entry(key.clone().into_bytes()).or_default().push_back(last.taken[before].1);
        }
    }
    let mut seen: Vec<u32> = taken.iter().chain(left.values().flatten()).copied().collect();
    seen.sort_unstable();
    println!("{pushed} pushed, {} taken", taken.len());
    assert_eq!(seen.len(), pushed as usize, "every number is seen");
    seen.dedup();
    assert_eq!(seen.len(), pushed as usize, "none is seen twice");
    assert_eq!(world.published.waited_for(), (0, 0));
    let mut journal: Vec<(u64, usize, Stamped)> = Vec::new();
    for (thread, stampeds) in journals.into_iter().enumerate() {
        journal.extend(stampeds.into_iter().map(|stamped| (stamped.stamp, thread, stamped)));
    }
    journal.sort_by_key(|(stamp, thread, _)| (*stamp, *thread));
    let mut model: BTreeMap<Vec<u8>, VecDeque<u32>> = BTreeMap::new();
    for (_, record) in journal.iter().flat_map(|(_, _, stamped)| &stamped.records) {
        let queue = model.entry(record[1].clone()).or_default();
        if record[0] == b"PUSH" {
            queue.push_back(number(&record[2]));
        } else {
            assert_eq!(queue.pop_front(), Some(number(&record[2])), "the journal has another order");
        }
    }
    model.retain(|_, queue| !queue.is_empty());
    assert_eq!(model, left);
}
