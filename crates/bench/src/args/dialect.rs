//! Where the known load generators disagree: spelling, defaults, and the meaning of some options.

use clap::ValueEnum;

/// The program whose command lines are understood.
#[derive(Copy, Clone, PartialEq, Eq, Debug, ValueEnum)]
pub enum Dialect {
    /// valkey-benchmark (and redis-benchmark).
    Valkey,
    /// dfly_bench.
    Dfly,
    /// memtier_benchmark.
    Memtier,
}

/// What holds if an option is not given.
#[derive(Copy, Clone, Debug)]
pub(super) struct Defaults {
    pub connections: usize,
    pub requests: u64,
    /// Nothing for one per core.
    pub threads: Option<usize>,
    pub data_size: &'static str,
    pub key_prefix: &'static str,
    pub key_maximum: u64,
    /// Requests per second of a connection; 0 for a closed loop.
    pub qps: f64,
}

impl Dialect {
    /// Whether connections and rates are given per thread and per connection, not in total.
    #[must_use]
    pub fn counts_apart(self) -> bool {
        self != Dialect::Valkey
    }

    pub(super) fn defaults(self) -> Defaults {
        match self {
            Dialect::Valkey => Defaults {
                connections: 50,
                requests: 100_000,
                threads: Some(1),
                data_size: "3",
                key_prefix: "key:",
                key_maximum: 9_999_999,
                qps: 0.0,
            },
            Dialect::Dfly => Defaults {
                connections: 20,
                requests: 1000,
                threads: None,
                data_size: "16",
                key_prefix: "key:",
                key_maximum: 50_000_000,
                qps: 20.0,
            },
            Dialect::Memtier => Defaults {
                connections: 50,
                requests: 10_000,
                threads: Some(4),
                data_size: "32",
                key_prefix: "memtier-",
                key_maximum: 10_000_000,
                qps: 0.0,
            },
        }
    }
}

/// Spells options as the parser knows them: `--key_maximum=5` as `--key-maximum=5`, `--c=20` as `-c20`, and words that only look like
/// options (behind the first word of a command) as they are.
#[must_use]
pub fn spell(words: Vec<String>) -> Vec<String> {
    let mut spelled = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    for word in words.by_ref() {
        if word == "--" {
            spelled.push(word);
            break;
        }
        let Some(long) = word.strip_prefix("--") else {
            spelled.push(word);
            continue;
        };
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let name = if name.chars().count() == 1 {
            format!("-{name}")
        } else {
            format!("--{}", name.replace('_', "-"))
        };
        match value {
            Some(value) => spelled.push(format!("{name}={value}")),
            None => spelled.push(name),
        }
    }
    spelled.extend(words);
    spelled
}
