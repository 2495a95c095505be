//! The row of a command: what is known about it before it runs.

use crate::KeySpec;

/// One row of a family's table. `R` says how it is run; a container (CLIENT, CONFIG) has subcommands instead.
pub struct Command<R: 'static> {
    pub spec: Spec,
    /// What runs; a container without an action of its own never gets here.
    pub run: R,
    pub subcommands: &'static [Command<R>],
}

impl<R> Command<R> {
    /// A command without subcommands.
    pub const fn new(spec: Spec, run: R) -> Self {
        Self { spec, run, subcommands: &[] }
    }

    /// The same row with this syntax.
    pub const fn syntax(mut self, syntax: &'static str) -> Self {
        self.spec.syntax = syntax;
        self
    }

    /// The same row with these tips.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.spec.tips = tips;
        self
    }

    /// The same row with these categories beside those that follow from its flags.
    pub const fn explicit(mut self, categories: Categories) -> Self {
        self.spec.explicit = categories;
        self
    }

    /// The same row as a container of these commands.
    pub const fn with(mut self, subcommands: &'static [Command<R>]) -> Self {
        self.subcommands = subcommands;
        self
    }
}

/// What is known about a command before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// In capitals; for a subcommand its own word alone (`KILL`).
    pub name: &'static str,
    /// One line, in Darter's own words, for COMMAND DOCS.
    pub summary: &'static str,
    /// The time it takes, in O notation.
    pub complexity: &'static str,
    /// The version of Redis or Valkey that brought the command.
    pub since: &'static str,
    pub group: Group,
    /// The number of words including the name; -n means at least n.
    pub arity: i16,
    pub flags: Flags,
    /// The categories that do not follow from the flags; [`Spec::categories`] gives them all.
    pub explicit: Categories,
    pub keys: &'static [KeySpec],
    /// Hints for proxies and cluster clients, as COMMAND INFO lists them.
    pub tips: &'static [&'static str],
    /// The arguments after the name in the notation of `command::syntax`.
    pub syntax: &'static str,
}

impl Spec {
    /// Whether a command of `words` words, its name included, has as many as it needs.
    pub fn accepts(&self, words: usize) -> bool {
        let bound = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { words >= bound } else { words == bound }
    }

    /// Every ACL category of the command: the explicit ones and those that follow from its flags.
    pub const fn categories(&self) -> Categories {
        let mut all = self.explicit;
        let follows = [
            (Flags::WRITE, Categories::WRITE),
            (Flags::READONLY, Categories::READ),
            (Flags::ADMIN, Categories::ADMIN.with(Categories::DANGEROUS)),
            (Flags::PUBSUB, Categories::PUBSUB),
            (Flags::BLOCKING, Categories::BLOCKING),
            (Flags::FAST, Categories::FAST),
        ];
        let mut index = 0;
        while index < follows.len() {
            // Scripts that only read are no commands that read.
            let is_script = follows[index].0.has(Flags::READONLY) && self.explicit.has(Categories::SCRIPTING);
            if self.flags.has(follows[index].0) && !is_script {
                all = all.with(follows[index].1);
            }
            index += 1;
        }
        if self.flags.has(Flags::FAST) { all } else { all.with(Categories::SLOW) }
    }
}

/// The group of COMMAND DOCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Connection,
    Generic,
    Server,
    String,
    Transactions,
    Cluster,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
    Geo,
    Bitmap,
    Hyperloglog,
    Pubsub,
    Scripting,
}

impl Group {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Server => "server",
            Self::String => "string",
            Self::Transactions => "transactions",
            Self::Cluster => "cluster",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Hash => "hash",
            Self::Stream => "stream",
            Self::Geo => "geo",
            Self::Bitmap => "bitmap",
            Self::Hyperloglog => "hyperloglog",
            Self::Pubsub => "pubsub",
            Self::Scripting => "scripting",
        }
    }
}

macro_rules! bit_set {
    ($(#[$doc:meta])* $name:ident { $($constant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(u32);

        impl $name {
            pub const NONE: Self = Self(0);
            bit_set!(@constants 0; $($constant,)*);
            const NAMES: &'static [&'static str] = &[$($text,)*];

            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// All members.
            pub const fn every() -> Self {
                Self(u32::MAX >> (u32::BITS - Self::NAMES.len() as u32))
            }

            /// Whether all of `other` is in this set.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any of `other` is in this set.
            pub const fn any(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The names of what is in the set, as replies list them.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().enumerate().filter(move |(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| *name)
            }

            /// The member with this name, in any case.
            pub fn named(name: &str) -> Option<Self> {
                Self::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)).map(|bit| Self(1 << bit))
            }
        }
    };
    (@constants $bit:expr; $constant:ident, $($rest:ident,)*) => {
        pub const $constant: Self = Self(1 << $bit);
        bit_set!(@constants $bit + 1; $($rest,)*);
    };
    (@constants $bit:expr;) => {};
}

bit_set! {
    /// The flags of COMMAND INFO, in the order in which it lists them.
    Flags {
        WRITE = "write",
        READONLY = "readonly",
        DENYOOM = "denyoom",
        MODULE = "module",
        ADMIN = "admin",
        PUBSUB = "pubsub",
        NOSCRIPT = "noscript",
        BLOCKING = "blocking",
        LOADING = "loading",
        STALE = "stale",
        SKIP_MONITOR = "skip_monitor",
        SKIP_COMMANDLOG = "skip_commandlog",
        ASKING = "asking",
        FAST = "fast",
        NO_AUTH = "no_auth",
        MAY_REPLICATE = "may_replicate",
        NO_ASYNC_LOADING = "no_async_loading",
        NO_MULTI = "no_multi",
        NO_MANDATORY_KEYS = "no_mandatory_keys",
        MOVABLEKEYS = "movablekeys",
        ALLOW_BUSY = "allow_busy",
    }
}

bit_set! {
    /// The categories of ACL rules, in the order in which ACL CAT lists them.
    Categories {
        KEYSPACE = "keyspace",
        READ = "read",
        WRITE = "write",
        SET = "set",
        SORTEDSET = "sortedset",
        LIST = "list",
        HASH = "hash",
        STRING = "string",
        BITMAP = "bitmap",
        HYPERLOGLOG = "hyperloglog",
        GEO = "geo",
        STREAM = "stream",
        PUBSUB = "pubsub",
        ADMIN = "admin",
        FAST = "fast",
        SLOW = "slow",
        BLOCKING = "blocking",
        DANGEROUS = "dangerous",
        CONNECTION = "connection",
        TRANSACTION = "transaction",
        SCRIPTING = "scripting",
    }
}
