//! DEBUG: for tests and measurements, allowed only where `enable-debug-command` says so.

use std::sync::Arc;
use std::time::Duration;

use command::{Begin, Command, CommandError, Effect, Find, KeyFlags, KeySpec};
use reactor::clock;
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::StringRef;
use shard::plan::Plan;

use super::{ADMIN, help, memory, on_keys, row};
use crate::broadcast::{Answer, Gathering, Question, answers_as};
use crate::client::Client;
use crate::config::Access;
use crate::connection::Waiting;
use crate::populate::{self, Kind, Outcome, Populate, Wanted};
use crate::shared::Message;
use crate::worker::{Cx, Flow, SessionRun, Worker};

pub const ROWS: &[Command<SessionRun>] =
    &[row("DEBUG", "Commands for tests and measurements.", "1.0.0", -2, ADMIN, debug)];

const KEYS: &[KeySpec] = &[KeySpec {
    begin: Begin::Index(2),
    find: Find::Range { last: 0, step: 1, limit: 0 },
    flags: KeyFlags::RO,
    notes: "",
}];

const HELP: &[&str] = &[
    "ERROR <text> -- answer with this error.",
    "LOG <text> -- write a line into the server's log.",
    "MEMORY-MAP -- how the arena is used: pages by owner and size.",
    "OBJECT <key> -- how a value is kept.",
    "POPULATE <count> [<prefix>] [<size>] [RAND] [TYPE <type>] [ELEMENTS <elements>] [EXPIRE <from> <to>] -- make keys <prefix>:0,",
    "    <prefix>:1, ... with values of <size> bytes, random ones with RAND, that expire after <from> to <to> seconds. What exists stays.",
    "    <type> is string, list, set, hash, zset or stream; a collection gets <elements> elements of <size> bytes (1 unless given); fields",
    "    and values of hashes and streams share them. Random elements of a set, hash or zset that are equal are one.",
    "SET-ACTIVE-EXPIRE <0|1> -- end or begin the expiry of keys that nobody asks for.",
    "SLEEP <seconds> -- stop the server, all of its threads, for a while.",
    "STRINGMATCH-LEN <length> <pattern> -- whether a pattern matches so many letters a.",
];

const NOT_ALLOWED: CommandError = CommandError::fixed(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, \
     otherwise you need to set this option in the configuration file, and then restart the server.",
);

/// Whether a client may use DEBUG. Asked before the command is queued by MULTI, too.
pub(crate) fn check_allowed(access: Access, client: &Client) -> Result<(), CommandError> {
    if access.allows(client.addresses.loopback) { Ok(()) } else { Err(NOT_ALLOWED) }
}

const NOTHING_SAVED: CommandError =
    CommandError::fixed("ERR Darter persists nothing yet: there is nothing to load the data from again");

fn debug(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    match (args[1].to_ascii_lowercase().as_slice(), args.len()) {
        (b"help", 2) => help(reply, "DEBUG", HELP),
        (b"memory-map", 2) => {
            let text = memory::map_text(cx);
            reply.verbatim("txt", text.as_bytes());
            Ok(Flow::Done)
        }
        (b"object", 3..) => Ok(on_keys(cx, &Plan::Keys(object), KEYS, args, reply)),
        (b"populate", 3..) => start_populating(cx, args),
        (b"set-active-expire", 3) => {
            Ok(set_active_expire(cx, stdx::num::parse_i64(&args[2]).unwrap_or(0) != 0))
        }
        (b"sleep", 3) => Ok(sleep(cx, &args[2])),
        (b"error", 3) => Ok(error(&args[2], reply)),
        (b"log", 3) => {
            log::warn!("DEBUG LOG: {}", String::from_utf8_lossy(&args[2]));
            reply.ok();
            Ok(Flow::Done)
        }
        (b"reload" | b"loadaof" | b"restart" | b"crash-and-recover", _) => Err(NOTHING_SAVED),
        (b"stringmatch-len", 4) => stringmatch(args, reply),
        _ => {
            let word = String::from_utf8_lossy(&args[1]);
            Err(CommandError::new(format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try DEBUG HELP."
            )))
        }
    }
}

fn object(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (now_ms, policy) = (cx.now_ms, cx.settings.policy);
    let entry = cx.peek(cx.key(args, 2)).ok_or(CommandError::NO_SUCH_KEY)?;
    let encoding = entry.encoding();
    // A string saved to a file has its length in front, in 1, 2 or 5 bytes; a short integer is one byte and itself.
    let saved = match entry.string() {
        Some(StringRef::Int(integer)) if i8::try_from(integer).is_ok() => 2,
        Some(StringRef::Int(integer)) if i16::try_from(integer).is_ok() => 3,
        Some(StringRef::Int(integer)) if i32::try_from(integer).is_ok() => 5,
        Some(string) => match string.len() {
            length @ 0..64 => length + 1,
            length @ 64..16384 => length + 2,
            length => length + 5,
        },
        // What it occupies; 0 would look like an empty one.
        None => entry.size(),
    };
    let idle_s = match entry.access() {
        Some(access) if policy.is_lru() => shard::access::idle_ms(access, now_ms) / 1000,
        _ => 0,
    };
    let address = entry.key().as_ptr().addr();
    let text = format!(
        "Value at:{address:#x} refcount:1 encoding:{encoding} serializedlength:{saved} lru:{} lru_seconds_idle:{idle_s}",
        (now_ms / 1000).wrapping_sub(idle_s) & 0xff_ffff
    );
    reply.simple(&text);
    Ok(Effect::None)
}

/// The one question that blocks, because that is what is asked for.
fn sleep(cx: &mut Cx<'_>, word: &[u8]) -> Flow {
    let seconds = stdx::num::parse_f64(word).filter(|seconds| (0.0..1e9).contains(seconds)).unwrap_or(0.0);
    let ask = Arc::new(move |_: &mut Worker| {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        Box::new(()) as Answer
    });
    cx.broadcast(ask, Box::new(done))
}

fn done(_: &mut Cx<'_>, _: Vec<Answer>, reply: &mut Reply) -> Flow {
    reply.ok();
    Flow::Done
}

fn error(text: &[u8], reply: &mut Reply) -> Flow {
    // An error is one line.
    let line: Vec<u8> =
        text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect();
    reply.error_bytes(&line);
    Flow::Done
}

fn stringmatch(args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    const LENGTH_MAX: i64 = 64 << 20;
    let length = stdx::num::parse_i64(&args[2]).ok_or(CommandError::NOT_AN_INTEGER)?;
    let text = vec![b'a'; length.clamp(0, LENGTH_MAX) as usize];
    reply.int(i64::from(stdx::glob::matches(&args[3], &text, false)));
    Ok(Flow::Done)
}

fn set_active_expire(cx: &mut Cx<'_>, on: bool) -> Flow {
    let ask = Arc::new(move |worker: &mut Worker| {
        worker.background.expiry_off = !on;
        Box::new(()) as Answer
    });
    cx.broadcast(ask, Box::new(done))
}

/// `POPULATE count [prefix] [size] [RAND] [TYPE type] [ELEMENTS elements] [EXPIRE from to]`
fn wanted(args: Args<'_>, db: u16) -> Result<Wanted, CommandError> {
    const NOT_POSITIVE: CommandError = CommandError::fixed("ERR value is out of range, must be positive");
    const NO_SUCH_KIND: CommandError =
        CommandError::fixed("ERR TYPE is one of string, list, set, hash, zset, stream");
    let number = |word: Option<&[u8]>| {
        let value = stdx::num::parse_i64(word.ok_or(CommandError::SYNTAX)?).ok_or(NOT_POSITIVE)?;
        u64::try_from(value).map_err(|_| NOT_POSITIVE)
    };
    let mut wanted = Wanted {
        db,
        count: number(args.get(2))?,
        prefix: b"key".to_vec(),
        kind: Kind::String,
        elements: 1,
        size: None,
        random: false,
        expire_s: None,
    };
    let is_option = |word: &[u8]| {
        [b"rand".as_slice(), b"type", b"elements", b"expire"]
            .iter()
            .any(|option| option.eq_ignore_ascii_case(word))
    };
    let mut next = 3;
    if let Some(prefix) = args.get(next).filter(|word| !is_option(word)) {
        wanted.prefix = prefix.to_vec();
        next += 1;
    }
    if let Some(size) = args.get(next).filter(|word| !is_option(word)) {
        let bytes = number(Some(size))?;
        // 0 means the natural size of the value, as in Valkey.
        wanted.size = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        next += 1;
    }
    while let Some(option) = args.get(next) {
        match option.to_ascii_lowercase().as_slice() {
            b"rand" => {
                wanted.random = true;
                next += 1;
            }
            b"type" => {
                let name = args.get(next + 1).ok_or(CommandError::SYNTAX)?;
                wanted.kind = Kind::named(name).ok_or(NO_SUCH_KIND)?;
                next += 2;
            }
            b"elements" => {
                wanted.elements = number(args.get(next + 1))?;
                if wanted.elements == 0 {
                    return Err(NOT_POSITIVE);
                }
                next += 2;
            }
            b"expire" => {
                let (from, to) = (number(args.get(next + 1))?, number(args.get(next + 2))?);
                if from > to {
                    return Err(CommandError::fixed("ERR EXPIRE wants its smaller bound first"));
                }
                wanted.expire_s = Some((from, to));
                next += 3;
            }
            _ => return Err(CommandError::SYNTAX),
        }
    }
    Ok(wanted)
}

/// Every thread makes its share; the connection waits for the last one.
fn start_populating(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Flow, CommandError> {
    let wanted = wanted(args, cx.client.db)?;
    if wanted.size.is_some_and(|size| size as u64 > cx.worker.config.proto_max_bulk_len) {
        return Err(CommandError::STRING_TOO_LONG);
    }
    let shared = cx.worker.shared;
    let asker = cx.ticket;
    // Lives in what the connection waits with: when that goes, every thread's share ends.
    let awaited = Arc::new(());
    let watched = Arc::downgrade(&awaited);
    let ask = Arc::new(move |worker: &mut Worker| {
        let job = Populate::new(wanted.clone(), worker.id(), worker.threads(), (asker, watched.clone()));
        worker.background.populating.push_back(job);
        Box::new(()) as Answer
    });
    for thread in 0..cx.worker.threads() {
        // Each answers when its share is done, not when it has taken the question.
        shared.send(thread, Message::Question(Question { ask: ask.clone(), from: None }));
    }
    let finish = Box::new(move |_: &mut Cx<'_>, answers: Vec<Answer>, reply: &mut Reply| {
        drop(awaited);
        populate::reply(answers_as::<Outcome>(answers), reply);
        Flow::Done
    });
    let gathering =
        Gathering { answers: Vec::new(), missing: shared.peers.len(), finish, started: clock::ticks() };
    Ok(cx.wait_for(Waiting::Answers(Box::new(gathering))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::OwnedArgs;

    fn parsed(line: &str) -> Result<Wanted, String> {
        let args = OwnedArgs::from_words(line.split(' '));
        wanted(args.as_args(), 3).map_err(|error| error.text().to_owned())
    }

    #[test]
    fn populate_takes_its_options_in_any_order() {
        let plain = Wanted {
            db: 3,
            count: 10,
            prefix: b"key".to_vec(),
            kind: Kind::String,
            elements: 1,
            size: None,
            random: false,
            expire_s: None,
        };
        assert_eq!(parsed("debug populate 10"), Ok(plain.clone()));
        assert_eq!(parsed("debug populate 10 key 0"), Ok(plain.clone()));
        let full = Wanted {
            prefix: b"p".to_vec(),
            size: Some(64),
            random: true,
            expire_s: Some((5, 9)),
            ..plain.clone()
        };
        assert_eq!(parsed("debug populate 10 p 64 RAND TYPE string EXPIRE 5 9"), Ok(full.clone()));
        assert_eq!(parsed("debug populate 10 p 64 expire 5 9 type STRING rand"), Ok(full));
        let sets = Wanted { kind: Kind::Set, elements: 5, ..plain.clone() };
        assert_eq!(parsed("debug populate 10 elements 5 type Set"), Ok(sets));
        assert_eq!(parsed("debug populate 10 rand"), Ok(Wanted { random: true, ..plain }));
        for line in [
            "debug populate -1",
            "debug populate x",
            "debug populate 1 p -1",
            "debug populate 1 p q",
            "debug populate 1 elements 0",
            "debug populate 1 elements x",
        ] {
            assert_eq!(parsed(line), Err("ERR value is out of range, must be positive".to_owned()), "{line}");
        }
        assert_eq!(parsed("debug populate 1 p 2 nope"), Err("ERR syntax error".to_owned()));
        for line in ["debug populate 1 p 2 type json", "debug populate 1 type", "debug populate 1 expire 9 5"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
