//! What is sent: the commands of a test, in which order or proportion, and the stream of requests that one connection makes of them.
//! Knows no socket and no clock.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};

use stdx::quote;
use stdx::rng::Rng;
use stdx::slot::{SLOTS, slot_of};

use crate::fault::{Fault, Result};
use crate::keys::Counter;
use crate::template::{COUNTERS, Chance, Context, TAG_WIDTH, Template};

mod named;

pub use self::named::{NAMES, by_name, default_names};

/// One measured run: its commands and what has to be done before.
#[derive(Clone, Debug)]
pub struct Test {
    /// What tables call it: `SET`, `SET:GET 1:10`.
    pub name: String,
    pub commands: Vec<Command>,
    pub order: Order,
    /// Commands that each server gets once before the run, as words.
    pub setup: Vec<Vec<Vec<u8>>>,
}

/// One command of a test.
#[derive(Clone, Debug)]
pub struct Command {
    /// Its first word in capitals, with a number behind it where a test has several.
    pub name: String,
    pub template: Template,
    /// Changes nothing, so that replicas serve it; and a null among its replies is a miss.
    pub is_read: bool,
    /// What its reply proves under `--verify`.
    pub check: Check,
}

/// How a reply is checked under `--verify`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// Not an error.
    Any,
    /// The value that belongs to the key, or none.
    Value,
}

/// Which command comes next.
#[derive(Clone, Debug)]
pub enum Order {
    /// By chance, in proportion to these weights.
    Weighted(Vec<u64>),
    /// These indices one after the other, over and over; a pipeline has whole rounds.
    Rounds(Vec<u16>),
}

/// Commands that change nothing, among those that load generators are given.
const READS: &[&str] = &[
    "BITCOUNT",
    "BITPOS",
    "DBSIZE",
    "EXISTS",
    "EXPIRETIME",
    "GEODIST",
    "GEOPOS",
    "GEOSEARCH",
    "GET",
    "GETBIT",
    "GETRANGE",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HRANDFIELD",
    "HSCAN",
    "HSTRLEN",
    "HVALS",
    "LINDEX",
    "LLEN",
    "LPOS",
    "LRANGE",
    "MGET",
    "PFCOUNT",
    "PTTL",
    "RANDOMKEY",
    "SCAN",
    "SCARD",
    "SDIFF",
    "SINTER",
    "SISMEMBER",
    "SMEMBERS",
    "SMISMEMBER",
    "SRANDMEMBER",
    "SSCAN",
    "STRLEN",
    "SUBSTR",
    "SUNION",
    "TTL",
    "TYPE",
    "XLEN",
    "XRANGE",
    "XREAD",
    "XREVRANGE",
    "ZCARD",
    "ZCOUNT",
    "ZLEXCOUNT",
    "ZMSCORE",
    "ZRANDMEMBER",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZREVRANK",
    "ZSCAN",
    "ZSCORE",
];

impl Command {
    /// From a line as `--command` takes it, words perhaps quoted.
    pub fn from_line(line: &str, context: &Context) -> Result<Command> {
        let words = quote::split_args(line.as_bytes())
            .map_err(|_| Fault::new(format!("a quote is not closed in --command {line}")))?;
        Command::new(&words, context)
    }

    /// From words.
    pub fn new(words: &[Vec<u8>], context: &Context) -> Result<Command> {
        let first = words.first().filter(|word| !word.is_empty());
        let first =
            first.ok_or_else(|| Fault::new("a command is empty: write one as in --command 'GET __key__'"))?;
        let name = String::from_utf8_lossy(first).to_uppercase();
        let is_read = READS.binary_search(&name.as_str()).is_ok();
        let template = Template::new(words, context)?;
        let key_alone = words.get(1).is_some_and(|word| word == b"__key__" || word == b"key:__rand_int__");
        let check = if name == "GET" && words.len() == 2 && key_alone && template.draws() {
            Check::Value
        } else {
            Check::Any
        };
        Ok(Command { name, template, is_read, check })
    }

    /// As [`Command::new`] for text without quotes.
    fn parsed(text: &str, context: &Context) -> Result<Command> {
        let words: Vec<Vec<u8>> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Command::new(&words, context)
    }
}

impl Test {
    /// A test of commands with weights.
    pub fn weighted(name: &str, commands: Vec<(Command, u64)>) -> Result<Test> {
        if commands.iter().all(|(_, weight)| *weight == 0) {
            return Err(Fault::new(format!("{name} asks for nothing: give one part a weight above 0")));
        }
        let (commands, weights) = commands.into_iter().filter(|(_, weight)| *weight > 0).unzip();
        Ok(Test { name: name.into(), commands, order: Order::Weighted(weights), setup: Vec::new() }
            .with_unique_names())
    }

    /// A test of SET and GET in a proportion, with expiry if the context has one.
    pub fn ratio(set: u64, get: u64, context: &Context) -> Result<Test> {
        if set == 0 && get == 0 {
            return Err(Fault::new(
                "--ratio 0:0 asks for neither SET nor GET: give one side a number above 0",
            ));
        }
        let write = if context.expiry.is_some() {
            "SETEX __key__ __expiry__ __data__"
        } else {
            "SET __key__ __data__"
        };
        let name = match (set, get) {
            (_, 0) => "SET".to_string(),
            (0, _) => "GET".to_string(),
            _ => format!("SET:GET {set}:{get}"),
        };
        let commands =
            vec![(Command::parsed(write, context)?, set), (Command::parsed("GET __key__", context)?, get)];
        Test::weighted(&name, commands)
    }

    /// A test of commands in a fixed order, each so many times.
    pub fn rounds(name: &str, commands: Vec<(Command, u64)>) -> Result<Test> {
        let length: u64 = commands.iter().map(|(_, times)| times).sum();
        if length == 0 || length > 1 << 16 {
            return Err(Fault::new("a sequence of commands has 1 to 65536 of them, repetitions included"));
        }
        let mut order = Vec::new();
        for (index, (_, times)) in commands.iter().enumerate() {
            (0..*times).for_each(|_| order.push(index as u16));
        }
        let commands = commands.into_iter().map(|(command, _)| command).collect();
        Ok(Test { name: name.into(), commands, order: Order::Rounds(order), setup: Vec::new() }
            .with_unique_names())
    }

    /// Commands of one round; 1 where there are no rounds.
    #[must_use]
    pub fn round(&self) -> usize {
        if let Order::Rounds(order) = &self.order { order.len() } else { 1 }
    }

    /// Whether some command draws numbers of the range of keys.
    #[must_use]
    pub fn draws(&self) -> bool {
        self.commands.iter().any(|command| command.template.draws())
    }

    fn with_unique_names(mut self) -> Test {
        for index in 0..self.commands.len() {
            let name = self.commands[index].name.clone();
            let before =
                self.commands[..index].iter().filter(|c| c.name.split('#').next() == Some(&name)).count();
            if before > 0 {
                self.commands[index].name = format!("{name}#{}", before + 1);
            }
        }
        self
    }
}

/// The slots of one node of a cluster.
#[derive(Clone, Debug)]
pub struct Slots {
    owned: Vec<bool>,
    /// The owned ones as a list; never empty.
    list: Vec<u16>,
}

impl Slots {
    /// From a list; nothing for an empty one.
    #[must_use]
    pub fn new(list: Vec<u16>) -> Option<Slots> {
        let mut owned = vec![false; usize::from(SLOTS)];
        list.iter().for_each(|slot| owned[usize::from(*slot)] = true);
        (!list.is_empty()).then_some(Slots { owned, list })
    }

    fn has(&self, slot: u16) -> bool {
        self.owned[usize::from(slot)]
    }
}

/// For each slot three letters whose hash tag leads there.
#[derive(Clone, Debug)]
pub struct Tags(Vec<[u8; 3]>);

impl Tags {
    /// Tries the 62^3 words of three letters and digits: 238,328 of them reach all 16,384 slots. Takes a few milliseconds.
    #[must_use]
    pub fn new() -> Tags {
        const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        const COUNT: usize = LETTERS.len();
        let mut tags = vec![[0; 3]; usize::from(SLOTS)];
        for number in 0..COUNT.pow(3) {
            let word =
                [LETTERS[number / COUNT / COUNT], LETTERS[number / COUNT % COUNT], LETTERS[number % COUNT]];
            let tag = &mut tags[usize::from(slot_of(&word))];
            if tag[0] == 0 {
                *tag = word;
            }
        }
        Tags(tags)
    }

    /// The tag of a slot with its braces.
    #[must_use]
    pub fn of(&self, slot: u16) -> [u8; TAG_WIDTH] {
        let [a, b, c] = self.0[usize::from(slot)];
        [b'{', a, b, c, b'}']
    }
}

impl Default for Tags {
    fn default() -> Tags {
        Tags::new()
    }
}

/// Draws of one request until it is clear that no key of the range belongs to the node.
const TRIES_MAX: u32 = 1 << 20;

/// Where the sequences of a stream come from.
#[derive(Clone, Debug)]
pub enum Sequences {
    /// Of its own: connection `index` of `count`.
    Own { index: u64, count: u64 },
    /// Shared with other connections.
    Shared(Arc<[Arc<AtomicU64>; COUNTERS]>),
}

impl Sequences {
    /// New ones that begin at zero, to be shared.
    #[must_use]
    pub fn shared() -> Sequences {
        Sequences::Shared(Arc::new(std::array::from_fn(|_| Arc::default())))
    }
}

/// What a stream is made from.
#[derive(Clone, Debug)]
pub struct Work {
    pub test: Test,
    pub context: Context,
    /// Made when a cluster first needs them: they take milliseconds.
    pub tags: Arc<LazyLock<Tags>>,
    /// Ends the stream after this many keys of a sequence; for `--populate`.
    pub keys_max: Option<u64>,
    total: u64,
}

impl Work {
    /// What streams of this test share.
    #[must_use]
    pub fn new(test: Test, context: Context) -> Work {
        let total = if let Order::Weighted(weights) = &test.order { weights.iter().sum() } else { 0 };
        Work { test, context, tags: Arc::new(LazyLock::new(Tags::new)), keys_max: None, total }
    }
}

/// A request that was written.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Index of its command.
    pub command: u16,
    /// The number of its key, if it has one.
    pub key: u64,
}

/// Why a stream writes no request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dry {
    /// All keys have been written.
    Done,
    /// None of the keys belongs to the node.
    NoKey,
}

/// The requests of one connection.
#[derive(Clone, Debug)]
pub struct Stream {
    work: Arc<Work>,
    chance: Chance,
    slots: Option<Arc<Slots>>,
    /// Place in the round.
    place: usize,
    /// Only reads, or only writes, are drawn; of a test that has both.
    half: Half,
    /// One command makes up the test, and any key will do.
    alone: bool,
}

/// Which commands of a test a connection sends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Half {
    All,
    Reads,
    Writes,
}

impl Stream {
    /// The stream of the connection that is number `index` of the run: `seed` and `index` decide it, but for shared sequences.
    #[must_use]
    pub fn new(work: Arc<Work>, seed: u64, index: u64, sequences: &Sequences) -> Stream {
        let counters = std::array::from_fn(|counter| match sequences {
            Sequences::Own { index, count } => Counter::Own { next: *index, stride: *count },
            Sequences::Shared(all) => Counter::Shared(Arc::clone(&all[counter])),
        });
        // Neighbouring seeds must not give neighbouring streams: the generator mixes what it is seeded with.
        let rng = Rng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ index);
        let alone = work.test.commands.len() == 1 && work.keys_max.is_none();
        let chance = Chance { rng, counters, tag: *b"{tag}" };
        Stream { work, chance, slots: None, place: 0, half: Half::All, alone }
    }

    /// Binds the stream to the slots of a node.
    pub fn bind(&mut self, slots: Option<Arc<Slots>>) {
        self.alone &= slots.is_none();
        self.slots = slots;
    }

    /// Restricts the stream to reads or writes.
    pub fn restrict(&mut self, half: Half) {
        self.half = half;
    }

    /// Appends the next request to `out`.
    #[inline]
    pub fn write(&mut self, out: &mut Vec<u8>) -> std::result::Result<Made, Dry> {
        let command = self.pick();
        let work = &*self.work;
        let template = &work.test.commands[usize::from(command)].template;
        if self.slots.is_none() && work.keys_max.is_none() {
            let key = template.write(&work.context, &mut self.chance, out);
            return Ok(Made { command, key });
        }
        self.write_bound(command, out)
    }

    /// Appends up to `count` requests of one command, all that is asked for if that costs less than one by one. Says how many; the key is
    /// known of single ones only.
    #[inline]
    pub fn write_some(&mut self, count: usize, out: &mut Vec<u8>) -> std::result::Result<(Made, usize), Dry> {
        if self.alone {
            let work = &*self.work;
            let command = &work.test.commands[0];
            if command.template.write_many(&work.context, &mut self.chance, count, out) {
                return Ok((Made { command: 0, key: 0 }, count));
            }
        }
        self.write(out).map(|made| (made, 1))
    }

    #[inline]
    fn pick(&mut self) -> u16 {
        match &self.work.test.order {
            Order::Rounds(order) => {
                let command = order[self.place];
                self.place = if self.place + 1 == order.len() { 0 } else { self.place + 1 };
                command
            }
            Order::Weighted(weights) if weights.len() == 1 => 0,
            Order::Weighted(weights) => loop {
                let mut at = self.chance.rng.below(self.work.total);
                let place = weights.iter().position(|weight| {
                    let here = at < *weight;
                    at = at.wrapping_sub(*weight);
                    here
                });
                let command = place.unwrap_or(0) as u16;
                let is_read = self.work.test.commands[usize::from(command)].is_read;
                if self.half == Half::All || is_read == (self.half == Half::Reads) {
                    return command;
                }
            },
        }
    }

    /// As [`Stream::write`], with a key of the node, and not beyond the last key.
    fn write_bound(&mut self, command: u16, out: &mut Vec<u8>) -> std::result::Result<Made, Dry> {
        let work = Arc::clone(&self.work);
        let template = &work.test.commands[usize::from(command)].template;
        let start = out.len();
        for _ in 0..TRIES_MAX {
            // Those who share the counter may overshoot by a key each, which are then written twice.
            if work
                .keys_max
                .is_some_and(|keys| self.chance.counters.iter().any(|counter| counter.peek() >= keys))
            {
                return Err(Dry::Done);
            }
            if let Some(slots) = self.slots.as_ref().filter(|_| template.has_tag()) {
                let slot = self.chance.rng.pick(&slots.list).copied().unwrap_or(0);
                self.chance.tag = work.tags.of(slot);
            }
            let key = template.write(&work.context, &mut self.chance, out);
            let fits = match (&self.slots, first_key(&out[start..])) {
                (Some(slots), Some(key)) => slots.has(slot_of(key)),
                _ => true,
            };
            if fits {
                return Ok(Made { command, key });
            }
            out.truncate(start);
        }
        Err(Dry::NoKey)
    }
}

/// The second word of an encoded command.
fn first_key(request: &[u8]) -> Option<&[u8]> {
    let after_count = line_end(request)?;
    let first = request.get(after_count..)?;
    let second = after_count + line_end(first)? + length(first)? + 2;
    let second = request.get(second..)?;
    let start = line_end(second)?;
    second.get(start..start + length(second)?)
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
}

/// The number of a `$` line.
fn length(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.strip_prefix(b"$")?.iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |value, digit| value * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests;
