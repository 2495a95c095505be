//! What is drawn, and where replies may differ: every exception to "the same bytes" stands in these tables.

use super::rows::Row;

/// How the replies of a command are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The same in every byte, but for elements of sets and maps, which have no order.
    Same,
    /// Elements of arrays in any order.
    Unordered,
    /// Integers may be off by this much: both servers are asked at slightly different times.
    Within(i64),
    /// Only the type: what is replied is the server's own.
    TypeOnly,
    /// The cursor is followed to its end; then all elements, each once, in any order.
    Scan,
    /// Names and values in turns: the pairs in any order.
    Pairs,
    /// Elements by chance: as many of them, each of the same type.
    Random,
    /// Times, ages, and how a server keeps a stream are hidden.
    Timeless,
    /// A key that exists on the server that gave it; nil on both or on neither.
    Member,
    /// Not drawn.
    Never,
}

/// Groups whose commands are all drawn, unless the table below says otherwise.
const GROUPS: &[&str] = &[
    "string",
    "generic",
    "transactions",
    "list",
    "set",
    "sorted-set",
    "hash",
    "stream",
    "geo",
    "bitmap",
    "hyperloglog",
];

/// Commands with a rule of their own.
const RULES: &[(&str, Rule)] = &[
    // Drawn although their group is not.
    ("dbsize", Rule::Same),
    ("echo", Rule::Same),
    ("flushall", Rule::Same),
    ("flushdb", Rule::Same),
    ("ping", Rule::Same),
    ("select", Rule::Same),
    ("swapdb", Rule::Same),
    ("time", Rule::TypeOnly),
    // The order of keys is each server's own.
    ("keys", Rule::Unordered),
    ("scan", Rule::Scan),
    ("hscan", Rule::Scan),
    ("sscan", Rule::Scan),
    ("zscan", Rule::Scan),
    ("hkeys", Rule::Unordered),
    ("hvals", Rule::Unordered),
    ("hgetall", Rule::Pairs),
    ("smembers", Rule::Unordered),
    ("sdiff", Rule::Unordered),
    ("sinter", Rule::Unordered),
    ("sunion", Rule::Unordered),
    // Chance.
    ("hrandfield", Rule::Random),
    ("srandmember", Rule::Random),
    ("zrandmember", Rule::Random),
    // Chance that stays in the data: golden files and unit tests see to it.
    ("spop", Rule::Never),
    ("randomkey", Rule::Member),
    // Time passes between the two.
    ("ttl", Rule::Within(1)),
    ("pttl", Rule::Within(2000)),
    ("expiretime", Rule::Within(1)),
    ("pexpiretime", Rule::Within(2000)),
    ("httl", Rule::Within(1)),
    ("hpttl", Rule::Within(2000)),
    ("hexpiretime", Rule::Within(1)),
    ("hpexpiretime", Rule::Within(2000)),
    // A counter of shared objects in one, a constant in the other.
    ("object refcount", Rule::TypeOnly),
    // A result of INCRBYFLOAT that is an integer is kept as one (docs/differences.md).
    ("object encoding", Rule::TypeOnly),
    // Darter keeps access times only under the policies that use them (docs/differences.md).
    ("object idletime", Rule::Never),
    // Block, need a second server, or give the server's own bytes.
    ("wait", Rule::Never),
    ("waitaof", Rule::Never),
    ("migrate", Rule::Never),
    // A second of work in the reference.
    ("pfselftest", Rule::Never),
    ("dump", Rule::Never),
    ("restore", Rule::Never),
    ("object help", Rule::Never),
    ("xgroup help", Rule::Never),
    ("xinfo help", Rule::Never),
    // When consumers were seen and entries delivered; the reference's radix tree.
    ("xpending", Rule::Timeless),
    ("xinfo stream", Rule::Timeless),
    ("xinfo consumers", Rule::Timeless),
];

/// Commands without which a sequence would have nothing to look at; drawn even where only others are asked for.
const SCENE: &[&str] = &[
    "set", "mset", "append", "del", "expire", "persist", "multi", "exec", "watch", "select", "rpush", "sadd",
    "zadd", "hset", "xadd",
];

/// The rule of a command.
pub fn of(name: &str, group: &str) -> Rule {
    let own = RULES.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule);
    own.unwrap_or(if GROUPS.contains(&group) { Rule::Same } else { Rule::Never })
}

pub fn is_drawn(row: &Row) -> bool {
    row.rule != Rule::Never
}

pub fn sets_the_scene(row: &Row) -> bool {
    SCENE.contains(&row.words[0].as_str())
}
