//! The words of one command: spans into the bytes that arrived, so that no word is copied or allocated.
//!
//! HOT: no allocation in `Args`.
//!
//! ```text
//! buffer  *2\r\n$3\r\nGET\r\n$1\r\nk\r\n
//! spans             8,3         17,1
//! ```

use std::fmt;
use std::ops::Index;

/// Where one word lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the word's first byte.
    pub start: u32,
    /// Number of its bytes.
    pub len: u32,
}

impl Span {
    /// The bytes this span covers. Panics if `buffer` is not the buffer it was made for.
    #[inline]
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start as usize..][..self.len as usize]
    }
}

/// The words of one command, borrowed. The first is the command's name.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buffer: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// `spans` must have been made for `buffer`.
    #[inline]
    pub const fn new(buffer: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { buffer, spans }
    }

    /// Number of words.
    #[inline]
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// True if there is no word.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// The word at `index`, which may be any bytes.
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        Some(self.spans.get(index)?.of(self.buffer))
    }

    /// The words in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone {
        self.spans.iter().map(move |span| span.of(self.buffer))
    }

    /// The words from `index` on; none if there are fewer.
    #[inline]
    pub fn from(self, index: usize) -> Args<'a> {
        Args { buffer: self.buffer, spans: self.spans.get(index..).unwrap_or(&[]) }
    }

    /// The first `count` words, or all if there are fewer.
    #[inline]
    pub fn first(self, count: usize) -> Args<'a> {
        Args { buffer: self.buffer, spans: &self.spans[..count.min(self.spans.len())] }
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// For an index that the command's arity has already allowed; anything else is our own bug.
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.spans[index].of(self.buffer)
    }
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|word| word.escape_ascii().to_string())).finish()
    }
}

/// The words of one command, copied out of the input: for a command that waits or travels.
#[derive(Clone, Default)]
pub struct OwnedArgs {
    buffer: Box<[u8]>,
    spans: Box<[Span]>,
}

impl OwnedArgs {
    /// Copies `words`.
    pub fn from_words<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> OwnedArgs {
        let mut buffer = Vec::new();
        let mut spans = Vec::new();
        for word in words {
            push_word(&mut buffer, &mut spans, word.as_ref());
        }
        OwnedArgs { buffer: buffer.into(), spans: spans.into() }
    }

    /// Takes over bytes and the spans made for them, without copying a word.
    pub fn from_parts(buffer: Vec<u8>, spans: Vec<Span>) -> OwnedArgs {
        OwnedArgs { buffer: buffer.into(), spans: spans.into() }
    }

    /// The words, borrowed.
    #[inline]
    pub fn as_args(&self) -> Args<'_> {
        Args { buffer: &self.buffer, spans: &self.spans }
    }
}

fn push_word(buffer: &mut Vec<u8>, spans: &mut Vec<Span>, word: &[u8]) {
    let start = u32::try_from(buffer.len()).expect("a command is below 4 GiB");
    let len = u32::try_from(word.len()).expect("a word is below 4 GiB");
    spans.push(Span { start, len });
    buffer.extend_from_slice(word);
}

impl From<Args<'_>> for OwnedArgs {
    /// Two allocations; copies the words only, not what stood between them.
    fn from(args: Args<'_>) -> OwnedArgs {
        let bytes = args.spans.iter().map(|span| span.len as usize).sum();
        let mut buffer = Vec::with_capacity(bytes);
        let mut spans = Vec::with_capacity(args.len());
        for word in args.iter() {
            push_word(&mut buffer, &mut spans, word);
        }
        OwnedArgs { buffer: buffer.into(), spans: spans.into() }
    }
}

impl fmt::Debug for OwnedArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_args().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_by_index_and_slice() {
        let buffer = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        let spans = [Span { start: 8, len: 3 }, Span { start: 17, len: 1 }];
        let args = Args::new(buffer, &spans);
        assert_eq!((args.len(), &args[0], args.get(1), args.get(2)), (2, &b"GET"[..], Some(&b"k"[..]), None));
        assert_eq!(args.from(1).iter().collect::<Vec<_>>(), [b"k"]);
        assert!(args.from(2).is_empty() && args.from(3).is_empty());
        assert_eq!(args.first(1).len(), 1);
        assert_eq!(args.first(9).len(), 2);
        let owned = OwnedArgs::from(args);
        assert_eq!(&owned.buffer[..], b"GETk");
        assert_eq!(format!("{owned:?}"), r#"["GET", "k"]"#);
        assert!(owned.as_args().iter().eq(OwnedArgs::from_words(["GET", "k"]).as_args().iter()));
        assert!(OwnedArgs::default().as_args().is_empty());
    }
}
