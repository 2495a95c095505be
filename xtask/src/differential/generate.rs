//! Draws sequences of commands from rows: few keys, values that are all kinds of things, options right and wrong.

use std::time::{SystemTime, UNIX_EPOCH};

use super::play::cursor_at;
use super::rows::{Argument, Kind, Row};
use super::rules::Rule;
use super::vocabulary::{self, Vocabulary};
use crate::bench::load::Random;

/// Two keys in one slot by their hash tag, some elsewhere, an empty and a binary one.
const KEYS: &[&[u8]] = &[b"a", b"b", b"c", b"{t}1", b"{t}2", b"key:with:a:longer:name", b"", b"\x00\xff\r\n"];
const PATTERNS: &[&[u8]] =
    &[b"*", b"a", b"?", b"{t}*", b"[a-c]", b"[^a]*", b"\\*", b"", b"*e*y*", b"[", b"\xff*"];
const DOUBLES: &[&[u8]] =
    &[b"0", b"1.5", b"-0.1", b"3e3", b"1e-7", b"1e300", b"inf", b"nan", b"x", b"", b"5.0e-1", b"10."];
const JUNK: &[&[u8]] = &[b"abc", b"", b"1.5", b"-1", b"nan", b"NX", b"xx", b"GET", b"\x00", b"match"];
/// Short, for nobody comes meanwhile; or wrong.
const TIMEOUTS: &[&[u8]] = &[b"0.01", b"0.003", b"-1", b"x", b"1e400"];
const TIMEOUTS_MS: &[&[u8]] = &[b"1", b"5", b"-1", b"x"];
/// Of SORT: without a `*` a set would come in its own order.
const BY_PATTERNS: &[&[u8]] = &[b"*", b"h*->a", b"h1->*", b"nokey*", b"{t}*"];
const GET_PATTERNS: &[&[u8]] = &[b"#", b"*", b"h*->m1", b"a", b"h1->*"];
const DATABASES: u64 = 4;
/// Deadlines lie further away than any run takes, or in the past.
const FAR_S: u64 = 1000;

/// One in so many commands is called by a script, with keys that it does not declare.
const SCRIPTS: u64 = 12;

/// One command of a sequence.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which of the connections sends it.
    pub client: usize,
    pub words: Vec<Vec<u8>>,
    pub rule: Rule,
}

/// A source of sequences; the same seed gives the same sequence, but for what depends on the clock.
pub struct Generator<'a> {
    random: Random,
    rows: &'a [Row],
    now_s: u64,
    /// Of the command that is drawn.
    vocabulary: Option<&'static Vocabulary>,
    /// The word that counts the elements that come next.
    count_at: Option<usize>,
    /// The last id of a stream's entry that was drawn.
    id_last: u64,
}

impl<'a> Generator<'a> {
    pub fn new(seed: u64, rows: &'a [Row]) -> Self {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self {
            random: Random(seed.wrapping_mul(0x1234_5678_9abc_def1)),
            rows,
            now_s,
            vocabulary: None,
            count_at: None,
            id_last: 2,
        }
    }

    /// A sequence; half of them speak RESP3.
    pub fn sequence(&mut self, length: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.random.below(2) == 0 {
            for client in 0..2 {
                let words = vec![b"HELLO".to_vec(), b"3".to_vec()];
                steps.push(Step { client, words, rule: Rule::TypeOnly });
            }
        }
        for _ in 0..length {
            let client = usize::from(self.random.below(5) == 0);
            let row = &self.rows[self.random.below(self.rows.len() as u64) as usize];
            let mut words = self.command(row);
            // A cursor is followed, and the key of RANDOMKEY asked for, by the command itself only.
            if !matches!(row.rule, Rule::Scan | Rule::Member) && self.random.below(SCRIPTS) == 0 {
                let script: [&[u8]; 3] = [b"EVAL", b"return redis.call(unpack(ARGV))", b"0"];
                words = script.iter().map(|word| word.to_vec()).chain(words).collect();
            }
            steps.push(Step { client, words, rule: row.rule });
        }
        steps
    }

    fn command(&mut self, row: &Row) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = row.words.iter().map(|word| self.cased(word)).collect();
        self.vocabulary = vocabulary::of(&row.group);
        self.count_at = None;
        for argument in &row.arguments {
            self.argument(argument, &mut words);
        }
        if ["setbit", "bitfield"].contains(&row.words[0].as_str()) {
            self.tame_bits(&mut words);
        }
        self.spoil(row.words.len(), &mut words);
        // A cursor that the server has not given means something else on every server.
        let cursor = words.get(cursor_at(&words[0])).is_some_and(|word| word.iter().any(u8::is_ascii_digit));
        if row.rule == Rule::Scan && cursor {
            let at = cursor_at(&words[0]);
            words[at] = b"0".to_vec();
        }
        words
    }

    /// One in fifteen commands gets something wrong.
    fn spoil(&mut self, names: usize, words: &mut Vec<Vec<u8>>) {
        if self.random.below(15) > 0 {
            return;
        }
        let junk = self.pick(JUNK);
        match self.random.below(3) {
            0 if words.len() > names => drop(words.pop()),
            1 if words.len() > names => {
                let at = names + self.random.below((words.len() - names) as u64) as usize;
                words[at] = junk;
            }
            _ => words.push(junk),
        }
    }

    fn argument(&mut self, argument: &Argument, words: &mut Vec<Vec<u8>>) {
        if argument.optional && self.random.below(3) > 0 {
            return;
        }
        // Now and then so many that collections cross the thresholds of their encodings.
        let times = match self.random.below(150) {
            _ if !argument.multiple => 1,
            0 => 40 + self.random.below(150),
            1 => 500 + self.random.below(100),
            n => 1 + n % 3,
        };
        let times = if self.vocabulary.is_some() { times } else { times.min(3) };
        for time in 0..times {
            if let Some(token) = argument.token.as_ref().filter(|_| time == 0 || argument.multiple_token) {
                let token = self.cased(token);
                words.push(token);
            }
            self.value(argument, words);
        }
        // A count of what follows it (`numkeys`) is right most of the time.
        if argument.multiple
            && let Some(at) = self.count_at.take()
            && self.random.below(10) > 0
        {
            words[at] = times.to_string().into_bytes();
        }
    }

    fn value(&mut self, argument: &Argument, words: &mut Vec<Vec<u8>>) {
        if argument.name.starts_with("num") {
            self.count_at = Some(words.len());
        }
        if let Some(word) = self.special(argument) {
            return words.push(word);
        }
        let word = match &argument.kind {
            Kind::Token => return,
            Kind::Block(parts) => return parts.iter().for_each(|part| self.argument(part, words)),
            Kind::OneOf(choices) => {
                // Sometimes two that exclude each other.
                for _ in 0..1 + u64::from(self.random.below(20) == 0) {
                    let choice = self.random.below(choices.len() as u64) as usize;
                    // An id by the server's clock is never the same twice.
                    if let Some(choice) = choices.get(choice).filter(|c| c.token.as_deref() != Some("*")) {
                        self.argument(choice, words);
                    }
                }
                return;
            }
            Kind::Key => self.key(),
            Kind::Pattern => self.pick(PATTERNS),
            Kind::Double => self.pick(DOUBLES),
            Kind::Text if argument.name == "encoding" && self.random.below(10) > 0 => self.field_type(),
            Kind::Text => self.text(),
            Kind::UnixTime => self.time(&argument.name, self.now_s),
            Kind::Integer if argument.name.contains("seconds") => self.time(&argument.name, 0),
            Kind::Integer if argument.name.contains("db") || argument.name == "index" => self.database(),
            Kind::Integer if argument.name == "bit" && self.random.below(8) > 0 => self.pick(&[b"0", b"1"]),
            Kind::Integer => self.integer(),
        };
        words.push(word);
    }

    /// A key: mostly one of those that hold values of the command's own type.
    fn key(&mut self) -> Vec<u8> {
        match self.vocabulary {
            Some(vocabulary) if self.random.below(8) > 0 => self.pick(vocabulary.keys),
            Some(_) => self.pick(KEYS),
            None => {
                let all = vocabulary::key_lists(KEYS);
                let list = all[self.random.below(all.len() as u64) as usize];
                self.pick(list)
            }
        }
    }

    /// A word that means something to commands of this type, if there is one for the argument's name.
    fn special(&mut self, argument: &Argument) -> Option<Vec<u8>> {
        if argument.name.ends_with("-pattern") {
            return Some(self.pick(if argument.name.starts_with("by") { BY_PATTERNS } else { GET_PATTERNS }));
        }
        let vocabulary = self.vocabulary?;
        if argument.name == "timeout" || argument.token.as_deref() == Some("BLOCK") {
            return Some(self.pick(if argument.name == "timeout" { TIMEOUTS } else { TIMEOUTS_MS }));
        }
        if vocabulary.ids.contains(&argument.name.as_str()) && self.random.below(3) > 0 {
            self.id_last += self.random.below(3);
            return Some(format!("{}-{}", self.id_last / 2, self.id_last % 2 + 1).into_bytes());
        }
        let (_, list) = vocabulary.words.iter().find(|(names, _)| names.contains(&argument.name.as_str()))?;
        (self.random.below(12) > 0).then(|| self.pick(list))
    }

    /// A time to live or, from `since`, a deadline: far away mostly; otherwise past, absurd or no number.
    fn time(&mut self, name: &str, since: u64) -> Vec<u8> {
        let scale = if name.contains("milli") { 1000 } else { 1 };
        let far = (since + FAR_S + 100 * self.random.below(9)) * scale;
        match self.random.below(20) {
            0 => b"0".to_vec(),
            1 => b"-1".to_vec(),
            2 => b"9223372036854775807".to_vec(),
            3 => b"soon".to_vec(),
            4 => b"-9223372036854775808".to_vec(),
            _ => far.to_string().into_bytes(),
        }
    }

    /// The type of an integer in a string of bits; a few do not exist.
    fn field_type(&mut self) -> Vec<u8> {
        let sign = if self.random.below(2) == 0 { 'i' } else { 'u' };
        format!("{sign}{}", 1 + self.random.below(64)).into_bytes()
    }

    /// What a bit may be set to, mostly; and no string of 64 MB, which each GET of it would carry about.
    fn tame_bits(&mut self, words: &mut [Vec<u8>]) {
        words.iter_mut().filter(|word| *word == b"536870912").for_each(|word| *word = b"4294967296".to_vec());
        if words[0].eq_ignore_ascii_case(b"SETBIT") && words.len() == 4 && self.random.below(8) > 0 {
            words[3] = self.pick(&[b"0", b"1"]);
        }
    }

    fn database(&mut self) -> Vec<u8> {
        match self.random.below(12) {
            0 => b"-1".to_vec(),
            1 => b"99".to_vec(),
            2 => b"one".to_vec(),
            _ => self.random.below(DATABASES).to_string().into_bytes(),
        }
    }

    fn integer(&mut self) -> Vec<u8> {
        // Offsets and lengths are drawn from these, too: nothing between a page and the limit of 512 MB.
        const EDGES: &[&[u8]] = &[
            b"9223372036854775807",
            b"-9223372036854775808",
            b"9223372036854775808",
            b"4294967296",
            b"4096",
            b"1.0",
            b"x",
            b"",
            b" 1",
            b"01",
            b"-0",
            b"+1",
        ];
        if self.random.below(6) == 0 {
            self.pick(EDGES)
        } else {
            (self.random.below(40) as i64 - 8).to_string().into_bytes()
        }
    }

    fn text(&mut self) -> Vec<u8> {
        const SOME: &[&[u8]] = &[
            b"",
            b"0",
            b"1",
            b"-1",
            b"10",
            b"9223372036854775807",
            b"-9223372036854775808",
            b"9223372036854775808",
            b"007",
            b"3.14",
            b"-1e3",
            b"1e17",
            b"hello",
            b"hello world",
            b"\x00\x01\xfe\xff",
            b"a\r\nb",
            b"ohmytext",
            b"mynewtext",
            b" 1",
        ];
        match self.random.below(30) {
            0 => vec![b'L'; 45 + self.random.below(300) as usize],
            1 => (0..self.random.below(20_000)).map(|_| self.random.next() as u8).collect(),
            2 if self.random.below(10) == 0 => vec![b'H'; 100_000],
            3..9 => self.random.below(1000).to_string().into_bytes(),
            _ => self.pick(SOME),
        }
    }

    fn pick(&mut self, list: &[&[u8]]) -> Vec<u8> {
        list[self.random.below(list.len() as u64) as usize].to_vec()
    }

    /// A word in capitals, in small letters, or in both.
    fn cased(&mut self, word: &str) -> Vec<u8> {
        match self.random.below(8) {
            0 => word.to_ascii_lowercase().into_bytes(),
            1 => word
                .char_indices()
                .map(|(n, c)| if n % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
                .collect::<String>()
                .into_bytes(),
            _ => word.to_ascii_uppercase().into_bytes(),
        }
    }
}
