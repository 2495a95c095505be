//! For tests: a few shards in process, one client, the clock as a field. Commands enter exactly the shards that their keys need, as the router does
//! it, so that a key specification that forgets a key fails here.

use command::{Command, CommandError, Effect, KeySpec, Record, key_positions};
use memory::{Arena, IndexHint};
use resp::{Args, OwnedArgs, Proto, Reply};
use shard::ShardId;
use shard::data::{Counters, Hints, ShardData};
use shard::exec::{Exec, Held, Layout};
use shard::keyspace::{Dirty, Storage};
use shard::latch::{Duty, Pace, Shards};
use shard::plan::{Attempted, Plan, Run, Step, WalkStart, WalkStep};
use shard::settings::Settings;
use std::sync::{Arc, LazyLock};
use stdx::hash::Seed;
use stdx::rng::Rng;

use crate::FAMILIES;

/// 2027-01-15T08:00:00Z
pub(crate) const NOW_MS: u64 = 1_800_000_000_000;
const DATABASES: u16 = 16;

static SEED: Seed = Seed::new(1);
static ARENA: LazyLock<&'static Arena> =
    LazyLock::new(|| Arena::reserve(1 << 36).expect("address space is there"));

/// A server without its outside.
pub(crate) struct World {
    shards: Shards<ShardData>,
    duty: Duty<ShardData>,
    layout: Layout,
    rng: Rng,
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
    pub(crate) now_ms: u64,
    pub(crate) db: u16,
    pub(crate) proto: Proto,
    pub(crate) touch: bool,
    pub(crate) journaling: bool,
}

/// What became of a command.
pub(crate) struct Ran {
    /// The reply as it goes out.
    pub(crate) bytes: Vec<u8>,
    /// Parts of it that were shared, not copied.
    pub(crate) shared: usize,
    pub(crate) effect: Effect,
}

/// Everything a keyspace holds: database, key, value as [`World::value`] tells it, deadline.
pub(crate) type Contents = Vec<(u16, Vec<u8>, Vec<u8>, Option<u64>)>;

impl World {
    /// `shards` is a power of two.
    pub(crate) fn new(shards: u16) -> Self {
        let arena = *ARENA;
        let storage = Storage { arena, seed: &SEED };
        let hints: Hints = (0..usize::from(shards) * usize::from(DATABASES))
            .map(|_| Arc::new(IndexHint::new(arena)))
            .collect();
        Self {
            shards: Shards::new(usize::from(shards), Pace::new(|| 0, 1), |id| {
                ShardData::new(id, DATABASES, storage, Arc::clone(&hints))
            }),
            duty: Duty::new(),
            layout: Layout { seed: &SEED, mask: shards - 1, databases: DATABASES },
            rng: Rng::new(1),
            settings: Settings::default(),
            counters: Counters::default(),
            now_ms: NOW_MS,
            db: 0,
            proto: Proto::Resp2,
            touch: true,
            journaling: true,
        }
    }

    /// Runs a command told in one line of words without blanks.
    pub(crate) fn text(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        String::from_utf8_lossy(&self.run(&words).bytes).into_owned()
    }

    /// Runs a command.
    pub(crate) fn run(&mut self, words: &[&[u8]]) -> Ran {
        let owned = OwnedArgs::from_words(words);
        let args = owned.as_args();
        let mut reply = Reply::new(self.proto);
        let effect = match resolve(args).and_then(|row| self.start(row, args, &mut reply)) {
            Ok(effect) => effect,
            Err(error) => {
                reply = Reply::new(self.proto);
                reply.error(error.text());
                Effect::None
            }
        };
        let mut bytes = Vec::new();
        let mut from = 0;
        for (at, part) in &reply.shared {
            bytes.extend_from_slice(&reply.bytes[from..*at]);
            bytes.extend_from_slice((**part).as_ref());
            from = *at;
        }
        bytes.extend_from_slice(&reply.bytes[from..]);
        Ran { bytes, shared: reply.shared.len(), effect }
    }

    fn start(
        &mut self,
        row: &Command<Plan>,
        args: Args<'_>,
        reply: &mut Reply,
    ) -> Result<Effect, CommandError> {
        match row.run.for_words(args) {
            Plan::KeysOrEvery { .. } => panic!("the plan is that of these words"),
            Plan::Keys(run) => {
                let ids = self.shards_of(row.spec.keys, args);
                self.enter(&ids, args, reply, run)
            }
            Plan::Blocking(blocking) => {
                let ids = self.shards_of(row.spec.keys, args);
                self.within(&ids, |cx| match (blocking.attempt)(cx, args, reply)? {
                    Attempted::Done(effect) => Ok(effect),
                    Attempted::Wait(wait) => {
                        (blocking.null)(reply);
                        Ok(wait.effect)
                    }
                })
            }
            Plan::Every(run) => {
                let ids: Vec<ShardId> = (0..=self.layout.mask).collect();
                self.enter(&ids, args, reply, run)
            }
            Plan::Nowhere(run) => self.enter(&[], args, reply, run),
            Plan::Walk { start, step } => self.walk(start, step, args, reply),
            Plan::Container => panic!("a container is resolved to its subcommand"),
        }
    }

    fn walk(
        &mut self,
        start: fn(&mut WalkStart<'_>, Args<'_>) -> Result<shard::plan::Walk, CommandError>,
        step: WalkStep,
        args: Args<'_>,
        reply: &mut Reply,
    ) -> Result<Effect, CommandError> {
        let counts: Vec<u64> = (0..=self.layout.mask).map(|id| self.keys_in(id, self.db)).collect();
        let mut cx = WalkStart {
            shards: self.layout.mask + 1,
            keys_of: &|id| counts[usize::from(id)],
            rng: &mut self.rng,
        };
        let mut walk = start(&mut cx, args)?;
        loop {
            let shard = walk.shard;
            if self.within(&[shard], |cx| step(cx, args, &mut walk, reply))? == Step::Done {
                return Ok(Effect::None);
            }
        }
    }

    fn enter(
        &mut self,
        ids: &[ShardId],
        args: Args<'_>,
        reply: &mut Reply,
        run: Run,
    ) -> Result<Effect, CommandError> {
        self.within(ids, |cx| run(cx, args, reply))
    }

    fn within<T>(&mut self, ids: &[ShardId], run: impl FnOnce(&mut Exec<'_>) -> T) -> T {
        let published: Vec<u64> =
            (0..DATABASES).map(|db| (0..=self.layout.mask).map(|id| self.keys_in(id, db)).sum()).collect();
        let Self { shards, duty, layout, rng, settings, counters, now_ms, db, touch, journaling, .. } = self;
        let exec = |held: Held<'_>| {
            run(&mut Exec {
                now_ms: *now_ms,
                db: *db,
                layout: *layout,
                settings,
                rng,
                counters,
                touch: *touch,
                journaling: *journaling,
                hint: None,
                keys_published: &|db| published[usize::from(db)],
                elsewhere: false,
                retrying: false,
                events: Default::default(),
                held,
            })
        };
        match ids {
            [] => exec(Held::None),
            [one] => {
                shards.with_one(*one, duty, |data| exec(Held::One(*one, data))).expect("nobody else is there")
            }
            several => shards
                .with_several(several, duty, |entered| exec(Held::Several(entered.reborrow())))
                .expect("nobody else is there"),
        }
    }

    fn shards_of(&self, keys: &'static [KeySpec], args: Args<'_>) -> Vec<ShardId> {
        let mut ids = Vec::new();
        // Counts that make no sense: the command itself answers with its error, from any shard.
        let _ = key_positions(keys, args, |index, _| ids.push(self.layout.shard_of(&args[index])));
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() { vec![0] } else { ids }
    }

    fn keys_in(&mut self, id: ShardId, db: u16) -> u64 {
        let keys = self.shards.with_one(id, &mut self.duty, |data| data.existing(db).map_or(0, |k| k.len()));
        keys.expect("nobody else is there")
    }

    /// Watches a key; the flag is raised when it changes.
    pub(crate) fn watch(&mut self, db: u16, key: &[u8]) -> Dirty {
        let dirty = Dirty::default();
        let id = self.layout.shard_of(key);
        let watch = |data: &mut ShardData| data.keyspace(db).watch(key, &dirty);
        self.shards.with_one(id, &mut self.duty, watch).expect("nobody else is there");
        dirty
    }

    pub(crate) fn unwatch(&mut self, db: u16, key: &[u8], dirty: &Dirty) {
        let id = self.layout.shard_of(key);
        let unwatch = |data: &mut ShardData| data.keyspace(db).unwatch(key, dirty);
        self.shards.with_one(id, &mut self.duty, unwatch).expect("nobody else is there");
    }

    /// All that has not expired, sorted.
    pub(crate) fn contents(&mut self) -> Contents {
        let mut found = Vec::new();
        let now_ms = self.now_ms;
        for id in 0..=self.layout.mask {
            let gather = |data: &mut ShardData| {
                for (db, keyspace) in data.in_use() {
                    let mut cursor = 0;
                    loop {
                        cursor = keyspace.scan(cursor, 100, |entry| {
                            if !entry.is_expired(now_ms) {
                                found.push((db, entry.key().to_vec(), entry.type_name(), entry.deadline()));
                            }
                        });
                        if cursor == 0 {
                            break;
                        }
                    }
                }
            };
            self.shards.with_one(id, &mut self.duty, gather).expect("nobody else is there");
        }
        found.sort();
        let (db, proto) = (self.db, std::mem::replace(&mut self.proto, Proto::Resp2));
        let (journaling, touch) = (self.journaling, self.touch);
        (self.journaling, self.touch) = (false, false);
        let mut contents = Vec::new();
        for (found_in, key, type_name, deadline) in found {
            self.db = found_in;
            let value = self.value(&key, type_name);
            // A hash all of whose fields have expired, which only now was asked for, is gone.
            if type_name != "hash" || !value.is_empty() {
                contents.push((found_in, key, value, deadline));
            }
        }
        (self.db, self.proto, self.journaling, self.touch) = (db, proto, journaling, touch);
        contents
    }

    /// What a key holds, in a form in which equal values are equal: what commands tell of it, sorted where order means nothing.
    fn value(&mut self, key: &[u8], type_name: &str) -> Vec<u8> {
        let mut ask = |words: &[&[u8]]| self.run(words).bytes;
        match type_name {
            "string" => ask(&[b"GET", key]),
            "list" => ask(&[b"LRANGE", key, b"0", b"-1"]),
            "set" => sorted(bulks(&ask(&[b"SMEMBERS", key])), 1),
            "zset" => ask(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
            "hash" => {
                let pairs = bulks(&ask(&[b"HGETALL", key]));
                let mut with_deadlines = Vec::new();
                for pair in pairs.chunks(2) {
                    let deadline = ask(&[b"HPEXPIRETIME", key, b"FIELDS", b"1", &pair[0]]);
                    with_deadlines.extend([pair[0].clone(), pair[1].clone(), deadline]);
                }
                sorted(with_deadlines, 3)
            }
            "stream" => {
                // What a stream is but for the times at which consumers were seen, which no journal tells, and its nodes: an empty one may go
                // unseen.
                let mut all = ask(&[b"XINFO", b"STREAM", key]);
                let place = |word: &[u8]| all.windows(word.len()).position(|part| part == word);
                let nodes = place(b"radix-tree-keys").zip(place(b"last-generated-id"));
                nodes.map(|(from, to)| all.drain(from..to));
                all.extend(ask(&[b"XRANGE", key, b"-", b"+"]));
                all.extend(ask(&[b"XINFO", b"GROUPS", key]));
                for group in bulks(&ask(&[b"XINFO", b"GROUPS", key])).windows(2) {
                    if group[0] == b"name" {
                        all.extend(ask(&[b"XPENDING", key, &group[1]]));
                        all.extend(ask(&[b"XPENDING", key, &group[1], b"-", b"+", b"1000000"]));
                        let consumers = bulks(&ask(&[b"XINFO", b"CONSUMERS", key, &group[1]]));
                        let named = consumers.windows(2).filter(|pair| pair[0] == b"name");
                        named.for_each(|pair| all.extend(&pair[1]));
                    }
                }
                all
            }
            other => panic!("a type that nobody told the tests about: {other}"),
        }
    }
}

/// The strings of a RESP2 reply, one after the other.
fn bulks(mut reply: &[u8]) -> Vec<Vec<u8>> {
    let mut strings = Vec::new();
    while let Some(end) = reply.windows(2).position(|pair| pair == b"\r\n") {
        let (line, rest) = (&reply[..end], &reply[end + 2..]);
        reply = rest;
        if line[0] == b'$' && line != b"$-1" {
            let length = String::from_utf8_lossy(&line[1..]).parse::<usize>().expect("a string is there");
            strings.push(rest[..length].to_vec());
            reply = &rest[length + 2..];
        }
    }
    strings
}

/// Groups of `by` strings in order, told apart by their lengths.
fn sorted(strings: Vec<Vec<u8>>, by: usize) -> Vec<u8> {
    let mut groups: Vec<&[Vec<u8>]> = strings.chunks(by).collect();
    groups.sort();
    let with_length = |text: &Vec<u8>| [text.len().to_string().as_bytes(), b":", text].concat();
    groups.concat().iter().flat_map(with_length).collect()
}

/// The row of a command, if its words fit.
fn resolve(args: Args<'_>) -> Result<&'static Command<Plan>, CommandError> {
    let named = |rows: &'static [Command<Plan>], name: &[u8]| {
        rows.iter().find(|row| name.eq_ignore_ascii_case(row.spec.name.as_bytes()))
    };
    let row = FAMILIES.iter().find_map(|rows| named(rows, &args[0]));
    let row = row.unwrap_or_else(|| panic!("no command {}", args[0].escape_ascii()));
    if !row.spec.accepts(args.len()) {
        return Err(CommandError::arity(row.spec.name));
    }
    if row.subcommands.is_empty() {
        return Ok(row);
    }
    let Some(subcommand) = named(row.subcommands, &args[1]) else {
        return Err(CommandError::new(format!(
            "ERR unknown subcommand '{}'. Try {} HELP.",
            args[1].escape_ascii(),
            row.spec.name
        )));
    };
    if subcommand.spec.accepts(args.len()) {
        return Ok(subcommand);
    }
    Err(CommandError::arity(&format!("{}|{}", row.spec.name, subcommand.spec.name)))
}

/// What the journal records for a command.
pub(crate) fn records(words: &[&[u8]], effect: Effect) -> Vec<Record> {
    match effect {
        Effect::None => Vec::new(),
        Effect::AsIs => vec![words.iter().map(|word| word.to_vec()).collect()],
        Effect::Rewritten(records) => records.into_vec(),
    }
}
