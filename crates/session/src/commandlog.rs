//! The commands that took long, were large or had a large reply: SLOWLOG and COMMANDLOG. Each thread keeps those of its own connections;
//! whoever asks gets the latest of all threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use reactor::clock::{ns_to_ticks, ticks_to_ns};
use resp::Args;

use crate::client::Client;
use crate::config::Config;

/// Words that are kept of a command, and bytes of each.
const WORDS_MAX: usize = 32;
const WORD_BYTES_MAX: usize = 128;

/// What a command is remembered for. As an index it names the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It took long; the value is in microseconds.
    Slow,
    /// Its words were large; the value is in bytes.
    LargeRequest,
    /// Its reply was large; the value is in bytes.
    LargeReply,
}

pub const KINDS: [(Kind, &str); 3] =
    [(Kind::Slow, "slow"), (Kind::LargeRequest, "large-request"), (Kind::LargeReply, "large-reply")];

/// Numbers of the commands that are remembered, of all threads.
#[derive(Debug, Default)]
pub struct Numbers([AtomicU64; KINDS.len()]);

impl Numbers {
    fn next(&self, kind: Kind) -> u64 {
        // Relaxed: only that no number is given twice counts.
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed)
    }
}

/// One remembered command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub number: u64,
    pub unix_s: u64,
    pub value: u64,
    pub words: Vec<Vec<u8>>,
    pub address: Box<str>,
    pub client_name: Box<[u8]>,
}

/// The commands that one thread remembers, and from which values on it does.
#[derive(Debug)]
pub struct CommandLog {
    lists: [VecDeque<Remembered>; KINDS.len()],
    lengths_max: [usize; KINDS.len()],
    /// Ticks, bytes, bytes; `u64::MAX` for never.
    thresholds: [u64; KINDS.len()],
}

/// What a command that has just run has cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub ticks: u64,
    pub request_bytes: u64,
    pub reply_bytes: u64,
}

impl CommandLog {
    pub fn new(config: &Config) -> Self {
        let mut log = Self { lists: Default::default(), lengths_max: [0; 3], thresholds: [u64::MAX; 3] };
        log.configure(config);
        log
    }

    pub fn configure(&mut self, config: &Config) {
        let slow_us = config.commandlog_execution_slower_than_us;
        self.thresholds = [
            slow_us.map_or(u64::MAX, |us| ns_to_ticks(us.saturating_mul(1000))),
            config.commandlog_request_larger_than.unwrap_or(u64::MAX),
            config.commandlog_reply_larger_than.unwrap_or(u64::MAX),
        ];
        self.lengths_max = [
            config.commandlog_slow_execution_max_len,
            config.commandlog_large_request_max_len,
            config.commandlog_large_reply_max_len,
        ];
        for (list, max) in self.lists.iter_mut().zip(self.lengths_max) {
            list.truncate(max);
        }
    }

    /// Whether a command with these costs is to be remembered at all.
    #[inline]
    pub fn wants(&self, cost: Cost) -> bool {
        cost.ticks >= self.thresholds[0]
            || cost.request_bytes >= self.thresholds[1]
            || cost.reply_bytes >= self.thresholds[2]
    }

    /// Remembers a command in the lists that want it.
    #[cold]
    pub fn remember(&mut self, cost: Cost, args: Args<'_>, client: &Client, now_ms: u64, numbers: &Numbers) {
        let values = [cost.ticks, cost.request_bytes, cost.reply_bytes];
        for (kind, _) in KINDS {
            let index = kind as usize;
            if values[index] < self.thresholds[index] || self.lengths_max[index] == 0 {
                continue;
            }
            let value = if kind == Kind::Slow { ticks_to_ns(cost.ticks) / 1000 } else { values[index] };
            let list = &mut self.lists[index];
            list.truncate(self.lengths_max[index] - 1);
            list.push_front(Remembered {
                number: numbers.next(kind),
                unix_s: now_ms / 1000,
                value,
                words: clipped(args),
                address: client.addresses.peer.clone(),
                client_name: client.name.clone(),
            });
        }
    }

    /// The latest commands of a list, latest first.
    pub fn latest(&self, kind: Kind, count: usize) -> Vec<Remembered> {
        self.lists[kind as usize].iter().take(count).cloned().collect()
    }

    pub fn len(&self, kind: Kind) -> usize {
        self.lists[kind as usize].len()
    }

    pub fn reset(&mut self, kind: Kind) {
        self.lists[kind as usize] = VecDeque::new();
    }
}

/// Bytes of a command as a client sends it: `*2\r\n$3\r\nGET\r\n$1\r\na\r\n`.
pub fn wire_bytes(args: Args<'_>) -> u64 {
    let digits = |number: usize| u64::from(number.max(1).ilog10()) + 1;
    let head = 1 + digits(args.len()) + 2;
    head + args.iter().map(|word| 1 + digits(word.len()) + 2 + word.len() as u64 + 2).sum::<u64>()
}

/// The latest commands of all threads. Each thread gives at least as many as are wanted, latest first.
pub fn merged(threads: impl Iterator<Item = Vec<Remembered>>, count: usize) -> Vec<Remembered> {
    let mut all: Vec<Remembered> = threads.flatten().collect();
    all.sort_unstable_by_key(|command| std::cmp::Reverse(command.number));
    all.truncate(count);
    all
}

/// The words of a command as they are remembered: not too many, not too long, no secrets.
fn clipped(args: Args<'_>) -> Vec<Vec<u8>> {
    let shown = if args.len() > WORDS_MAX { WORDS_MAX - 1 } else { args.len() };
    let mut words: Vec<Vec<u8>> = (0..shown)
        .map(|index| {
            if is_secret(args, index) {
                return b"(redacted)".to_vec();
            }
            let word = &args[index];
            let mut kept = word[..word.len().min(WORD_BYTES_MAX)].to_vec();
            if word.len() > WORD_BYTES_MAX {
                kept.extend_from_slice(
                    format!("... ({} more bytes)", word.len() - WORD_BYTES_MAX).as_bytes(),
                );
            }
            kept
        })
        .collect();
    if shown < args.len() {
        words.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    words
}

/// Settings whose values nobody should read in a log.
const SECRET_SETTINGS: [&str; 5] =
    ["requirepass", "primaryauth", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"];

/// Whether a word of a command is a secret.
pub fn is_secret(args: Args<'_>, index: usize) -> bool {
    let is =
        |at: usize, text: &str| args.get(at).is_some_and(|word| word.eq_ignore_ascii_case(text.as_bytes()));
    if is(0, "auth") {
        return index >= 1;
    }
    if is(0, "hello") {
        return (2..args.len()).any(|at| is(at, "auth") && (at + 1..=at + 2).contains(&index));
    }
    if is(0, "config") && is(1, "set") {
        let name = index.wrapping_sub(1);
        return index >= 3 && index % 2 == 1 && SECRET_SETTINGS.iter().any(|secret| is(name, secret));
    }
    is(0, "acl") && is(1, "setuser") && index >= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Addresses;
    use resp::OwnedArgs;

    fn words(line: &str) -> Vec<String> {
        let args = OwnedArgs::from_words(line.split(' '));
        clipped(args.as_args()).into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn secrets_are_hidden() {
        assert_eq!(words("AUTH user pass"), ["AUTH", "(redacted)", "(redacted)"]);
        assert_eq!(
            words("hello 3 auth u p setname n"),
            ["hello", "3", "auth", "(redacted)", "(redacted)", "setname", "n"]
        );
        assert_eq!(
            words("config set timeout 3 RequirePass x"),
            ["config", "set", "timeout", "3", "RequirePass", "(redacted)"]
        );
        assert_eq!(words("config set timeout requirepass"), ["config", "set", "timeout", "requirepass"]);
        assert_eq!(words("acl setuser u >p"), ["acl", "setuser", "(redacted)", "(redacted)"]);
        assert_eq!(words("set auth requirepass"), ["set", "auth", "requirepass"]);
    }

    #[test]
    fn the_size_of_a_request_is_that_on_the_wire() {
        for words in [vec!["GET", "a"], vec!["SET", "", "0123456789"], vec!["x"; 12]] {
            let args = OwnedArgs::from_words(&words);
            let mut wire = format!("*{}\r\n", words.len());
            words.iter().for_each(|word| wire += &format!("${}\r\n{word}\r\n", word.len()));
            assert_eq!(wire_bytes(args.as_args()), wire.len() as u64, "{wire:?}");
        }
    }

    #[test]
    fn words_are_clipped() {
        let many = words(&format!("mset{}", " k".repeat(80)));
        assert_eq!((many.len(), many[31].as_str()), (32, "... (50 more arguments)"));
        assert_eq!(words(&format!("mset{}", " k".repeat(31))).len(), 32);
        let long = words(&format!("set a {}", "x".repeat(200)));
        assert_eq!(long[2], format!("{}... (72 more bytes)", "x".repeat(128)));
    }

    #[test]
    fn lists_are_bounded_and_merged_by_number() {
        let config = Config::default();
        let pairs: [(&[u8], &[u8]); 2] =
            [(b"slowlog-max-len", b"3"), (b"commandlog-request-larger-than", b"10")];
        let config = config.set(&pairs, false).unwrap();
        let numbers = Numbers::default();
        let mut logs = [CommandLog::new(&config), CommandLog::new(&config)];
        let user = acl::User::unlimited(&acl::Catalog::new(std::iter::empty(), 16), b"default");
        let client = Client::new(1, 0, Addresses::default(), user.into(), 0);
        let args = OwnedArgs::from_words(["get", "a"]);
        let slow = Cost { ticks: ns_to_ticks(20_000_000), request_bytes: 5, reply_bytes: 5 };
        let quick = Cost { ticks: 1, ..slow };
        assert!(
            logs[0].wants(slow)
                && !logs[0].wants(quick)
                && logs[0].wants(Cost { request_bytes: 10, ..quick })
        );
        for turn in 0..8 {
            logs[turn % 2].remember(slow, args.as_args(), &client, 5000, &numbers);
        }
        assert_eq!((logs[0].len(Kind::Slow), logs[0].len(Kind::LargeRequest)), (3, 0));
        let merged = merged(logs.iter().map(|log| log.latest(Kind::Slow, 3)), 3);
        assert_eq!(merged.iter().map(|command| command.number).collect::<Vec<_>>(), [7, 6, 5]);
        assert_eq!((merged[0].unix_s, merged[0].value.abs_diff(20_000) < 10), (5, true));
        logs[0].reset(Kind::Slow);
        assert_eq!(logs[0].len(Kind::Slow), 0);
    }
}
