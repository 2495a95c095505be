//! A script as it is stored and shared: its source, its digest, and what its first line declares.
//!
//! ```text
//! #!lua flags=no-writes,allow-stale
//! #!lua name=mylib                      (a library of functions)
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use stdx::quote::split_args;
use stdx::sha1::sha1_hex;

/// What a script or function declares about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Writes nothing: may run where writing is not allowed.
    pub const NO_WRITES: Flags = Flags(1);
    /// May run when memory is short.
    pub const ALLOW_OOM: Flags = Flags(2);
    /// May run on a replica whose data is stale.
    pub const ALLOW_STALE: Flags = Flags(4);
    /// May not run in cluster mode.
    pub const NO_CLUSTER: Flags = Flags(8);
    /// May touch keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: Flags = Flags(16);
    /// There was no first line that declares flags: the rules are those of the commands that are called.
    pub const COMPATIBILITY: Flags = Flags(32);

    /// All names, in the order in which they are listed.
    const NAMES: [(&'static str, Flags); 5] = [
        ("no-writes", Flags::NO_WRITES),
        ("allow-oom", Flags::ALLOW_OOM),
        ("allow-stale", Flags::ALLOW_STALE),
        ("no-cluster", Flags::NO_CLUSTER),
        ("allow-cross-slot-keys", Flags::ALLOW_CROSS_SLOT_KEYS),
    ];

    /// The flag of this name.
    pub fn named(name: &[u8]) -> Option<Flags> {
        Self::NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, flag)| *flag)
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(_, flag)| self.has(*flag)).map(|(name, _)| name)
    }

    /// True if every flag of `wanted` is set.
    pub const fn has(self, wanted: Flags) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// These flags and those of `more`.
    #[must_use]
    pub const fn with(self, more: Flags) -> Flags {
        Flags(self.0 | more.0)
    }
}

/// A script that compiles. Threads share it; each compiles it once for its own virtual machine.
pub struct Script {
    /// SHA-1 of the source, in hexadecimal.
    pub sha: [u8; 40],
    /// As it was sent.
    pub source: Box<[u8]>,
    /// From the first line.
    pub flags: Flags,
    /// Unique in the process: what compiled forms are found by.
    pub(crate) id: u64,
    /// Where the code begins: the first line is not Lua if it declares something. Its line end is kept, so that lines keep
    /// their numbers.
    pub(crate) code_start: usize,
}

impl Script {
    /// Reads the first line. What can be wrong with it is an error text of Valkey.
    pub(crate) fn new(source: &[u8]) -> Result<Script, Vec<u8>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (mut flags, mut code_start) = (Flags::COMPATIBILITY, 0);
        if let Some(line) = first_line(source)? {
            flags = Flags::default();
            code_start = line.len;
            for word in &line.options {
                let Some(list) = word.strip_prefix(b"flags=") else {
                    return Err([b"ERR Unknown lua shebang option: ", word.as_slice()].concat());
                };
                for name in list.split(|byte| *byte == b',').filter(|_| !list.is_empty()) {
                    let flag = Flags::named(name)
                        .ok_or_else(|| [b"ERR Unexpected flag in script shebang: ", name].concat())?;
                    flags = flags.with(flag);
                }
            }
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Script { sha: sha1_hex(source), source: source.into(), flags, id, code_start })
    }

    /// The Lua part of the source.
    pub(crate) fn code(&self) -> &[u8] {
        &self.source[self.code_start..]
    }
}

/// What a first line declares.
pub(crate) struct FirstLine {
    /// The words after the engine's name.
    pub(crate) options: Vec<Vec<u8>>,
    /// Bytes before the line end.
    pub(crate) len: usize,
}

/// The first line of a source if it begins with `#!`.
pub(crate) fn first_line(source: &[u8]) -> Result<Option<FirstLine>, Vec<u8>> {
    let Some(rest) = source.strip_prefix(b"#!") else { return Ok(None) };
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or(b"ERR Invalid script shebang".to_vec())?;
    let words = split_args(&rest[..end]).map_err(|_| b"ERR Invalid engine in script shebang".to_vec())?;
    // A blank after "#!" stands for an engine without a name, which is this one.
    let named = rest.first().is_some_and(|byte| !stdx::quote::is_space(*byte));
    let engine: &[u8] = if named { &words[0] } else { b"" };
    if (named || end == 0) && !engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"ERR Could not find scripting engine '", engine, b"'"].concat());
    }
    Ok(Some(FirstLine { options: words[usize::from(named)..].to_vec(), len: 2 + end }))
}
