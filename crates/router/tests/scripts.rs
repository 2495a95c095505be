//! Scripts that say nothing of their keys, run by many threads in few shards: atomic and isolated all the same, and never stuck.
//!
//! A script is played by Rust: what is tested is how it gets its shards, how it is undone, and how it runs again.

mod world;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use resp::{OwnedArgs, Reply};
use router::engine::{Engine, Ran, Sent};
use router::script::{Inside, Program, Refused};
use shard::ShardId;
use shard::plan::Plan;
use stdx::rng::Rng;
use world::{PATIENCE, World, seed};

const ACCOUNTS: u64 = 40;
const START: i64 = 1000;

/// How often a script was run, of all threads.
static RUNS: AtomicU64 = AtomicU64::new(0);

fn account(number: u64) -> Vec<u8> {
    format!("account:{number}").into_bytes()
}

/// A command as a script calls it.
struct Rows {
    get: (&'static command::Spec, Plan),
    decrby: (&'static command::Spec, Plan),
    incrby: (&'static command::Spec, Plan),
    lpush: (&'static command::Spec, Plan),
    dbsize: (&'static command::Spec, Plan),
    keys: (&'static command::Spec, Plan),
}

impl Rows {
    fn of(world: &World) -> &'static Self {
        Box::leak(Box::new(Self {
            get: world.plan(b"get"),
            decrby: world.plan(b"decrby"),
            incrby: world.plan(b"incrby"),
            lpush: world.plan(b"lpush"),
            dbsize: world.plan(b"dbsize"),
            keys: world.plan(b"keys"),
        }))
    }
}

#[derive(Clone, Copy)]
enum Order {
    Transfer {
        from: u64,
        to: u64,
        amount: i64,
    },
    /// Also leaves a line in a list that grows large, whose former value cannot be kept.
    Noted {
        from: u64,
        to: u64,
    },
    Total,
    /// Looks at the keyspace as a whole after it has written.
    Count {
        from: u64,
        to: u64,
    },
}

/// Plays a script.
#[derive(Clone, Copy)]
struct Teller {
    order: Order,
    rows: &'static Rows,
}

impl Teller {
    fn call(
        inside: &mut Inside<'_, '_>,
        row: &(&'static command::Spec, Plan),
        words: &[&[u8]],
    ) -> Result<i64, Refused> {
        let args = OwnedArgs::from_words(words);
        let mut reply = Reply::default();
        inside.call((row.0, &row.1), args.as_args(), None, &mut reply)?;
        thread::yield_now();
        let text = String::from_utf8_lossy(&reply.bytes);
        let digits = text.trim_start_matches([':', '$', '*']).lines().last().unwrap_or_default();
        Ok(digits.parse().unwrap_or(0))
    }

    fn transfer(&self, inside: &mut Inside<'_, '_>, from: u64, to: u64, amount: i64) -> Result<(), Refused> {
        let amount = amount.to_string();
        Self::call(inside, &self.rows.decrby, &[b"DECRBY", &account(from), amount.as_bytes()])?;
        Self::call(inside, &self.rows.incrby, &[b"INCRBY", &account(to), amount.as_bytes()])?;
        Ok(())
    }

    fn play(&self, inside: &mut Inside<'_, '_>) -> Result<i64, Refused> {
        match self.order {
            Order::Transfer { from, to, amount } => self.transfer(inside, from, to, amount).map(|()| 0),
            Order::Noted { from, to } => {
                self.transfer(inside, from, to, 1)?;
                let line = [b'x'; 300];
                Self::call(inside, &self.rows.lpush, &[b"LPUSH", b"notes", &line])
            }
            Order::Total => (0..ACCOUNTS)
                .map(|number| Self::call(inside, &self.rows.get, &[b"GET", &account(number)]))
                .sum(),
            Order::Count { from, to } => {
                self.transfer(inside, from, to, 2)?;
                let keys = Self::call(inside, &self.rows.dbsize, &[b"DBSIZE"])?;
                Self::call(inside, &self.rows.keys, &[b"KEYS", b"account:*"])?;
                Ok(keys)
            }
        }
    }
}

impl Program for Teller {
    fn run(&mut self, inside: &mut Inside<'_, '_>, reply: &mut Reply) {
        // Relaxed: a statistic.
        RUNS.fetch_add(1, Ordering::Relaxed);
        match self.play(inside) {
            Ok(answer) => reply.int(answer),
            Err(Refused::Taken) => {}
            Err(Refused::Error(error)) => panic!("{}", error.text()),
        }
    }
}

fn draw(rng: &mut Rng) -> Order {
    let mut account = || rng.next_u64() % ACCOUNTS;
    let (from, to) = (account(), account());
    match rng.next_u64() % 10 {
        0 => Order::Total,
        1 => Order::Noted { from, to },
        2 => Order::Count { from, to },
        _ => Order::Transfer { from, to, amount: (rng.next_u64() % 50) as i64 },
    }
}

/// One thread with its connections.
struct Player<'w> {
    world: &'w World,
    engine: Engine,
    rows: &'static Rows,
    waiting: HashSet<u64>,
    totals: u64,
}

impl Player<'_> {
    fn run(&mut self, connection: u64, order: Order, ids: &[ShardId]) {
        let mut reply = Reply::default();
        let teller = Teller { order, rows: self.rows };
        match self.engine.run_script((connection, 0), teller, |own| Box::new(own), ids, &mut reply) {
            Ran::Done => self.check(&reply),
            Ran::Posted => assert!(self.waiting.insert(connection), "a connection waits for one reply"),
            Ran::Failed | Ran::Waits(_) => panic!("a script neither fails nor waits"),
        }
    }

    /// Orders that give 0 are transfers; a total is the sum of all accounts; a count is that of the keys.
    fn check(&mut self, reply: &Reply) {
        let text = String::from_utf8_lossy(&reply.bytes);
        let answer: i64 = text.trim_start_matches(':').trim_end().parse().expect("one number");
        if answer == ACCOUNTS as i64 * START {
            self.totals += 1;
        } else {
            assert!(answer < START * 5, "a script saw half a transfer: {answer}");
        }
    }

    fn read_mail(&mut self) {
        self.engine.drain_duty();
        for task in self.world.mailboxes[usize::from(self.engine.thread)].take() {
            let Sent::Back(mut task) = self.engine.resume(task) else { continue };
            self.engine.absorb(&mut task);
            assert!(self.waiting.remove(&task.ticket.connection), "a second reply");
            self.check(&task.reply);
        }
    }
}

#[test]
fn scripts_with_undeclared_keys_are_atomic() {
    const THREADS: u16 = 4;
    const ORDERS: u64 = 1500;
    let seed = seed();
    let world = World::new(usize::from(THREADS));
    let rows = Rows::of(&world);
    {
        let mut engine = world.engine(0, seed, false);
        for number in 0..ACCOUNTS {
            let mut reply = Reply::default();
            let start = START.to_string();
            let fill = Fill { rows, key: account(number), amount: start.into_bytes() };
            assert!(matches!(
                engine.run_script((0, 0), fill, |own| Box::new(own), &[], &mut reply),
                Ran::Done
            ));
        }
    }
    let stopped = AtomicUsize::new(0);
    let totals: u64 = thread::scope(|scope| {
        let handles: Vec<_> = (0..THREADS)
            .map(|number| {
                let (world, stopped) = (&world, &stopped);
                scope.spawn(move || {
                    let engine = world.engine(number, seed ^ u64::from(number), true);
                    let mut player = Player { world, engine, rows, waiting: HashSet::new(), totals: 0 };
                    let mut rng = Rng::new(seed.wrapping_add(u64::from(number) * 77));
                    let begun = Instant::now();
                    for connection in 0..ORDERS {
                        let order = draw(&mut rng);
                        // Some declare a key, some nothing.
                        let ids = match (order, rng.next_u64() % 2) {
                            (Order::Transfer { from, .. }, 0) => {
                                vec![world.layout.shard_of(&account(from))]
                            }
                            _ => Vec::new(),
                        };
                        player.run(connection, order, &ids);
                        player.read_mail();
                    }
                    stopped.fetch_add(1, Ordering::SeqCst);
                    while !player.waiting.is_empty()
                        || player.engine.has_duty()
                        || stopped.load(Ordering::SeqCst) < usize::from(THREADS)
                    {
                        assert!(begun.elapsed() < PATIENCE + Duration::from_secs(60), "a script is stranded");
                        player.read_mail();
                        thread::yield_now();
                    }
                    player.totals
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum()
    });
    assert!(totals > 0, "somebody has looked at all accounts");
    let mut player =
        Player { world: &world, engine: world.engine(0, 1, false), rows, waiting: HashSet::new(), totals: 0 };
    player.run(0, Order::Total, &[]);
    assert_eq!(player.totals, 1, "the sum of all accounts has changed");
    let orders = u64::from(THREADS) * ORDERS + ACCOUNTS + 1;
    let runs = RUNS.load(Ordering::Relaxed);
    println!("{} of {orders} scripts ran again, {totals} totals", runs - orders);
    assert!(runs > orders, "no script met a taken shard: the test tests nothing");
}

/// Makes an account.
struct Fill {
    rows: &'static Rows,
    key: Vec<u8>,
    amount: Vec<u8>,
}

impl Program for Fill {
    fn run(&mut self, inside: &mut Inside<'_, '_>, reply: &mut Reply) {
        RUNS.fetch_add(1, Ordering::Relaxed);
        let made = Teller::call(inside, &self.rows.incrby, &[b"INCRBY", &self.key, &self.amount]);
        reply.int(made.expect("nobody else is there"));
    }
}

/// Writes to three keys, then to one whose shard is taken.
struct Halfway {
    rows: Vec<(&'static command::Spec, Plan)>,
    last: Vec<u8>,
}
impl Program for Halfway {
    fn run(&mut self, inside: &mut Inside<'_, '_>, reply: &mut Reply) {
        let last = self.last.clone();
        let calls: [&[&[u8]]; 7] = [
            &[b"MOVE", b"{a}moved", b"1"],
            &[b"COPY", b"{a}old", b"{a}copied", b"DB", b"1"],
            &[b"SET", b"{a}old", b"new"],
            &[b"LPUSH", b"{a}fresh", b"x"],
            &[b"DEL", b"{a}volatile"],
            &[b"RPUSH", b"{a}list", b"z"],
            &[b"SET", &last, b"x"],
        ];
        for (row, words) in self.rows.iter().zip(calls) {
            let args = OwnedArgs::from_words(words);
            match inside.call((row.0, &row.1), args.as_args(), None, &mut Reply::default()) {
                Ok(()) => {}
                Err(Refused::Taken) => return,
                Err(Refused::Error(error)) => panic!("{}", error.text()),
            }
        }
        reply.ok();
    }
}

/// A command of its own.
fn run_alone(world: &World, engine: &mut Engine, words: &[&[u8]]) -> String {
    let (spec, plan) = world.plan(words[0]);
    let args = OwnedArgs::from_words(words);
    let mut reply = Reply::default();
    let (plan, keys, args) = (&plan, spec.keys, args.as_args());
    let call = router::engine::Call { plan, keys, args, db: 0, hint: None, connection: 0, caching: None };
    assert!(matches!(engine.run(call, &mut reply), Ran::Done));
    String::from_utf8_lossy(&reply.bytes).into_owned()
}

/// What a script wrote before it met a taken shard is as it was before: values, deadlines, keys that were not there.
#[test]
fn a_script_that_meets_a_taken_shard_leaves_nothing() {
    let world = World::new(1);
    let layout = world.layout;
    let mut engine = world.engine(0, 1, true);
    let command = |engine: &mut Engine, words: &[&[u8]]| run_alone(&world, engine, words);
    command(&mut engine, &[b"SET", b"{a}old", b"1"]);
    command(&mut engine, &[b"SET", b"{a}moved", b"m"]);
    command(&mut engine, &[b"SET", b"{a}volatile", b"v", b"PX", b"100000"]);
    command(&mut engine, &[b"RPUSH", b"{a}list", b"x", b"y"]);
    // In the first shard, so that the script holds nothing while it waits to be run again.
    assert_ne!(layout.shard_of(b"{a}"), 0);
    let last = (0..).map(|n: u32| n.to_string().into_bytes()).find(|key| layout.shard_of(key) == 0);
    let last = last.expect("every shard has keys");
    let names: [&[u8]; 7] = [b"move", b"copy", b"set", b"lpush", b"del", b"rpush", b"set"];
    let halfway = Halfway { rows: names.iter().map(|name| world.plan(name)).collect(), last: last.clone() };
    engine.journal.clear();
    let shards = std::sync::Arc::clone(&world.shards);
    let mut other = world.engine(0, 2, false);
    let mut reply = Reply::default();
    let ran = shards.with_one(layout.shard_of(&last), &mut other.duty, |_| {
        let ran = engine.run_script((7, 0), halfway, |own| Box::new(own), &[], &mut reply);
        assert!(matches!(ran, Ran::Posted), "it comes again with all shards");
        assert!(engine.journal.iter().all(|stamped| stamped.records.is_empty()), "nothing has happened yet");
        assert!(reply.is_empty());
        assert_eq!(command(&mut engine, &[b"GET", b"{a}old"]), "$1\r\n1\r\n");
        assert_eq!(command(&mut engine, &[b"EXISTS", b"{a}fresh"]), ":0\r\n");
        assert_eq!(command(&mut engine, &[b"LLEN", b"{a}list"]), ":2\r\n");
        let time = command(&mut engine, &[b"PEXPIRETIME", b"{a}volatile"]);
        assert_eq!(time, format!(":{}\r\n", world::NOW_MS + 100_000));
        assert_eq!(command(&mut engine, &[b"DBSIZE"]), ":4\r\n");
        assert_eq!(world.published.keys(1), 0, "nothing was left in the other database");
    });
    assert!(ran.is_ok());
    while !world.shards.resume(&mut other.duty) {}
    let mail: Vec<_> = world.mailboxes[0].take().collect();
    assert_eq!(mail.len(), 1);
    for task in mail {
        let Sent::Back(mut task) = engine.resume(task) else { panic!("nobody is in its way") };
        assert_eq!(task.reply.bytes, b"+OK\r\n");
        assert_eq!(task.stamped.records.len(), 7, "one transaction");
        engine.absorb(&mut task);
    }
    // Every write happened once: what the first run did was taken back.
    assert_eq!(
        command(&mut engine, &[b"LRANGE", b"{a}list", b"0", b"-1"]),
        "*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n"
    );
    assert_eq!(command(&mut engine, &[b"LLEN", b"{a}fresh"]), ":1\r\n");
    assert_eq!(command(&mut engine, &[b"EXISTS", b"{a}volatile"]), ":0\r\n");
}
