//! `cargo xtask differential --acl`: random sequences of ACL SETUSER go to both servers; the users that they make must be written alike, and
//! allow and deny the same random commands for the same reasons. The categories of all commands are compared first.

use std::collections::BTreeSet;

use crate::bench::load::Random;
use crate::fail::Result;
use crate::server::{Program, Server};
use crate::tally::Tally;
use crate::wire::{Client, Value};

/// Rules of one SETUSER.
const RULES_MAX: u64 = 8;
/// SETUSERs of one sequence, and commands asked about after each.
const STEPS: u64 = 6;
const QUESTIONS: u64 = 12;

const PATTERNS: &[&str] = &["a", "b", "k:*", "k:a*", "*", "?", "[ab]", "k:?", "*:a", "", "\\*", "aa", "x y"];
const NAMES: &[&str] = &["a", "b", "k:a", "k:ab", "k:b", "aa", "", "*", "x"];
const PLAIN: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    "reset",
    "allkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "alldbs",
    "resetdbs",
    "clearselectors",
    "allcommands",
    "nocommands",
    "+@all",
    "-@all",
    "~*",
    "&*",
    "sanitize-payload",
    "ON",
    "AllKeys",
    "db=0",
    "db=1,0",
    "db=2",
    "db=",
    "db=x",
    "db=-1",
    "db= 1",
    "db=1 ",
    "db=+3",
    "db=0x1",
    "db=2147483647",
    "db=2147483648",
    "db=1,,2",
    "foo",
    "",
    "+",
    "-",
    "+@",
    "~",
    "&",
    "%",
    "%R",
    "(",
    ")",
    "()",
    "(on)",
    "#12",
    "!12",
    ">",
    "<",
    "+config|",
    "+|x",
    "+get|",
    "-get|x",
    "+nope|x",
];
/// Commands whose rights depend on their words.
const TELLING: &[&str] = &[
    "get @",
    "set @ 1",
    "set @ 1 get",
    "mget @ @",
    "del @",
    "copy @ @",
    "copy @ @ db %",
    "copy @ @ db % db %",
    "copy @ @ replace",
    "move @ %",
    "swapdb % %",
    "select %",
    "flushall",
    "flushdb",
    "dbsize",
    "keys @",
    "publish @ m",
    "spublish @ m",
    "subscribe @ @",
    "psubscribe @ @",
    "ssubscribe @",
    "unsubscribe @",
    "sort @ store @",
    "sort @ by x_* get #",
    "zunionstore @ 2 @ @",
    "bitfield @ get u8 0",
    "bitfield @ set u8 0 1",
    "bitfield @ overflow wrap get u8 0",
    "lmpop 2 @ @ left",
    "exists @ @",
    "rename @ @",
    "georadius @ 0 0 1 m store @",
    "xreadgroup group g c streams @ >",
    "ping",
    "auth x",
    "config get x",
    "client list",
    "object encoding @",
    "memory usage @",
    "eval x 1 @",
    "evalsha x 2 @ @",
    "watch @",
    "getdel @",
    "hset @ f v",
    "zadd @ 1 m",
    "lmove @ @ left left",
    "type @",
];

/// Compares `count` sequences.
pub fn compare(darter: &Program, reference: &Program, seed: u64, count: u64) -> Result<Tally> {
    let (darter, reference) =
        (Server::start(darter, &[] as &[&str])?, Server::start(reference, &[] as &[&str])?);
    let mut tally = Tally::default();
    let commands = names(&mut darter.client()?, &["COMMAND", "LIST"])?;
    let full_names = names(&mut darter.client()?, &["COMMAND", "LIST", "FILTERBY", "PATTERN", "*"])?;
    let categories = names(&mut darter.client()?, &["ACL", "CAT"])?;
    for category in &categories {
        let words = ["ACL", "CAT", category];
        let here: BTreeSet<String> = names(&mut darter.client()?, &words)?.into_iter().collect();
        let there = names(&mut reference.client()?, &words)?;
        let there: BTreeSet<String> = there.into_iter().filter(|name| full_names.contains(name)).collect();
        let difference: Vec<&String> = here.symmetric_difference(&there).collect();
        let same = if difference.is_empty() { Ok(()) } else { Err(format!("{difference:?}")) };
        tally.check(&format!("category {category}"), same, false);
    }
    let words = Words { commands, full_names, categories };
    let mut replies = 0;
    for seed in seed..seed + count {
        let mut pair = (darter.client()?, reference.client()?);
        let outcome =
            sequence(&mut pair, &words, &mut Random(seed.wrapping_mul(0x1234_5678_9abc_def1)), &mut replies)?;
        tally.check(&format!("rules of seed {seed}"), outcome, false);
        if tally.failed >= super::SHOWN_MAX {
            break;
        }
    }
    println!("acl: {} alike, {} not; {replies} replies compared", tally.passed, tally.failed);
    Ok(tally)
}

/// What rules are made of.
struct Words {
    commands: Vec<String>,
    full_names: Vec<String>,
    categories: Vec<String>,
}

fn names(client: &mut Client, words: &[&str]) -> Result<Vec<String>> {
    Ok(client.call(words)?.items().iter().map(|name| name.text()).collect())
}

/// One sequence: both servers must give the same replies.
fn sequence(
    pair: &mut (Client, Client),
    words: &Words,
    random: &mut Random,
    replies: &mut u64,
) -> Result<std::result::Result<(), String>> {
    let mut said: Vec<Vec<String>> = Vec::new();
    let mut ask = |question: Vec<String>| -> Result<std::result::Result<(), String>> {
        let (here, there) = (pair.0.call(&question)?, pair.1.call(&question)?);
        *replies += 1;
        said.push(question);
        Ok(if here == there { Ok(()) } else { Err(difference(&said, &here, &there)) })
    };
    let start = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut questions = vec![start("SELECT 0"), start("ACL SETUSER u reset")];
    for _ in 0..STEPS {
        let mut rules = start("ACL SETUSER u");
        rules.extend((0..=random.below(RULES_MAX)).map(|_| words.rule(random, true)));
        questions.push(rules);
        questions.push(start("ACL LIST"));
        questions.push(start("ACL GETUSER u"));
        questions.push(start(&format!("SELECT {}", random.below(3))));
        questions.extend((0..QUESTIONS).map(|_| words.question(random)));
    }
    for question in questions {
        if let Err(difference) = ask(question)? {
            return Ok(Err(difference));
        }
    }
    Ok(Ok(()))
}

fn difference(said: &[Vec<String>], here: &Value, there: &Value) -> String {
    let last = said.last().map(|words| words.join(" ")).unwrap_or_default();
    let rules = said.iter().filter(|words| words.get(1).is_some_and(|word| word == "SETUSER"));
    let rules: Vec<String> = rules.map(|words| words[3..].join(" ")).collect();
    format!(
        "{last}\n    after {}\n    Darter:    {}\n    reference: {}",
        rules.join("\n          "),
        here.render().replace('\n', " "),
        there.render().replace('\n', " ")
    )
}

fn one<'a>(random: &mut Random, of: &'a [impl AsRef<str>]) -> &'a str {
    of[random.below(of.len() as u64) as usize].as_ref()
}

impl Words {
    fn rule(&self, random: &mut Random, selectors: bool) -> String {
        let sign = if random.below(3) == 0 { '-' } else { '+' };
        match random.below(20) {
            0..3 => one(random, PLAIN).to_owned(),
            3..6 => format!("~{}", one(random, PATTERNS)),
            6 => format!("%R~{}", one(random, PATTERNS)),
            7 => format!("%{}~{}", one(random, &["W", "rw", "RR", "", "X"]), one(random, PATTERNS)),
            8 => format!("&{}", one(random, PATTERNS)),
            9..12 => format!("{sign}@{}", one(random, &self.categories)),
            12..14 => format!("{sign}{}", one(random, &self.commands)),
            14 => format!("{sign}{}", one(random, &self.full_names).to_ascii_uppercase()),
            15 => format!(
                "+{}|{}",
                one(random, &["select", "get", "config", "SET"]),
                one(random, &["0", "1", "A", "get"])
            ),
            16 => format!("{}{}", one(random, &[">", "<"]), one(random, &["p", "q", ""])),
            17..19 if selectors => {
                let rules: Vec<String> = (0..random.below(4)).map(|_| self.rule(random, false)).collect();
                format!("({})", rules.join(" "))
            }
            _ => {
                let name = one(random, TELLING).split(' ').next().unwrap_or_default();
                format!("+{name}")
            }
        }
    }

    fn question(&self, random: &mut Random) -> Vec<String> {
        let line = match random.below(4) {
            0 => format!("{} a b c", one(random, &self.commands)),
            _ => one(random, TELLING).to_owned(),
        };
        let mut words: Vec<String> = ["ACL", "DRYRUN", "u"].map(str::to_owned).to_vec();
        words.extend(line.split(' ').map(|word| match word {
            "@" => one(random, NAMES).to_owned(),
            "%" => one(random, &["0", "1", "2", "99", "x", "-1"]).to_owned(),
            word => word.to_owned(),
        }));
        words
    }
}
