//! The elements of DEBUG POPULATE's collections: commands that add the next few of them.

use stdx::rng::Rng;

use super::Wanted;

/// Elements of one command at most.
const ELEMENTS_MAX: u64 = 32;

/// Bytes of one command at most, unless one element has more.
const BYTES_MAX: usize = 16 << 10;

/// The type of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    String,
    List,
    Set,
    Hash,
    SortedSet,
    Stream,
}

impl Kind {
    /// The type that TYPE calls by this name, in any case.
    pub fn named(name: &[u8]) -> Option<Kind> {
        match name.to_ascii_lowercase().as_slice() {
            b"string" => Some(Self::String),
            b"list" => Some(Self::List),
            b"set" => Some(Self::Set),
            b"hash" => Some(Self::Hash),
            b"zset" => Some(Self::SortedSet),
            b"stream" => Some(Self::Stream),
            _ => None,
        }
    }
}

/// A command that adds elements to a collection.
pub(super) struct Chunk {
    pub words: Vec<Vec<u8>>,
    pub elements: u64,
    /// Of all words together.
    pub bytes: usize,
}

/// The command that adds elements to `key`, which has `from` of them; at least one more is wanted.
pub(super) fn next(wanted: &Wanted, key: &[u8], from: u64, rng: &mut Rng) -> Chunk {
    let name = match wanted.kind {
        Kind::String => panic!("a string has no elements"),
        Kind::List => "RPUSH",
        Kind::Set => "SADD",
        Kind::Hash => "HSET",
        Kind::SortedSet => "ZADD",
        Kind::Stream => "XADD",
    };
    let mut words = vec![name.as_bytes().to_vec(), key.to_vec()];
    if wanted.kind == Kind::Stream {
        words.push(b"*".to_vec());
    }
    let mut bytes = words.iter().map(Vec::len).sum();
    // XADD adds one entry.
    let most = if wanted.kind == Kind::Stream { 1 } else { ELEMENTS_MAX };
    let mut elements = 0;
    while elements < most.min(wanted.elements - from) && (elements == 0 || bytes < BYTES_MAX) {
        for word in element(wanted, from + elements, rng) {
            bytes += word.len();
            words.push(word);
        }
        elements += 1;
    }
    Chunk { words, elements, bytes }
}

/// The words of one element.
fn element(wanted: &Wanted, number: u64, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut text = |name: &str, size: Option<usize>| match (wanted.random, size) {
        (true, size) => {
            let mut bytes = vec![0; size.unwrap_or(8)];
            rng.fill(&mut bytes);
            bytes
        }
        (false, size) => sized(format!("{name}:{number}").into_bytes(), size),
    };
    // A field and its value share the size; a field has at least a byte.
    let field = wanted.size.map(|size| (size / 2).max(1));
    let value = wanted.size.map(|size| size - size / 2);
    match wanted.kind {
        Kind::Hash | Kind::Stream => vec![text("field", field), text("value", value)],
        Kind::SortedSet => {
            let member = text("element", wanted.size);
            let score = if wanted.random { rng.below(wanted.elements) } else { number };
            vec![score.to_string().into_bytes(), member]
        }
        _ => vec![text("element", wanted.size)],
    }
}

/// The text with zero bytes behind it, or its end, where its number is: elements stay distinct as long as their numbers fit.
fn sized(mut text: Vec<u8>, size: Option<usize>) -> Vec<u8> {
    let Some(size) = size else { return text };
    text.drain(..text.len().saturating_sub(size));
    text.resize(size, 0);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(kind: Kind, elements: u64, size: Option<usize>) -> Wanted {
        let prefix = b"p".to_vec();
        Wanted { db: 0, count: 1, prefix, kind, elements, size, random: false, expire_s: None }
    }

    fn command(wanted: &Wanted, from: u64) -> String {
        let chunk = next(wanted, b"p:0", from, &mut Rng::new(1));
        let words: Vec<_> = chunk.words.iter().map(|word| word.escape_ascii().to_string()).collect();
        assert_eq!(chunk.bytes, chunk.words.iter().map(Vec::len).sum::<usize>());
        words.join(" ")
    }

    #[test]
    fn a_command_adds_the_elements_that_are_missing() {
        assert_eq!(command(&wanted(Kind::List, 3, None), 1), "RPUSH p:0 element:1 element:2");
        assert_eq!(command(&wanted(Kind::Set, 12, Some(4)), 10), "SADD p:0 t:10 t:11");
        assert_eq!(command(&wanted(Kind::Hash, 1, None), 0), "HSET p:0 field:0 value:0");
        assert_eq!(command(&wanted(Kind::Hash, 1, Some(5)), 0), "HSET p:0 :0 e:0");
        assert_eq!(command(&wanted(Kind::SortedSet, 8, Some(11)), 7), "ZADD p:0 7 element:7\\x00\\x00");
        assert_eq!(command(&wanted(Kind::Stream, 9, None), 3), "XADD p:0 * field:3 value:3");
    }

    #[test]
    fn a_command_is_bounded() {
        let many = next(&wanted(Kind::Set, 1_000_000, None), b"k", 0, &mut Rng::new(1));
        assert_eq!((many.elements, many.words.len()), (ELEMENTS_MAX, 2 + ELEMENTS_MAX as usize));
        let large = next(&wanted(Kind::List, 10, Some(1 << 20)), b"k", 0, &mut Rng::new(1));
        assert_eq!((large.elements, large.words[2].len()), (1, 1 << 20));
        let random = Wanted { random: true, ..wanted(Kind::SortedSet, 10, Some(7)) };
        let chunk = next(&random, b"k", 0, &mut Rng::new(1));
        assert!(chunk.words[2..].chunks(2).all(|pair| {
            pair[1].len() == 7 && String::from_utf8_lossy(&pair[0]).parse::<u64>().unwrap() < 10
        }));
    }
}
