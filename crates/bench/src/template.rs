//! Commands as they go out: the encoded bytes with holes, and what fills the holes. Knows nothing of which command comes when.
//!
//! ```text
//! SET __key__ __data__     *3\r\n$3\r\nSET\r\n | word: "key:" key | $64\r\n | data | \r\n
//!                          literal, ready-made   length known late  literal   hole   literal
//! ```
//! A word whose holes have a fixed width is flattened: its length is a literal. Only words of varying width are measured when they are
//! written.
//!
//! HOT: `Template::write` runs once per request. No allocation but the growth of the output, no lock, no system call.

use std::ops::Range;

use stdx::num::{I64_LEN_MAX, digits_u64, format_u64};
use stdx::rng::Rng;

use crate::data::Data;
use crate::fault::{Fault, Result};
use crate::keys::{Counter, Sampler};

/// Digits of `__rand_int__` and its kin, padded with zeros.
const INT_WIDTH: usize = 12;
/// Bytes of a tag, braces included.
pub const TAG_WIDTH: usize = 5;
/// Scores are below this.
const SCORE_END: u64 = 1 << 31;
/// The numbered placeholders, first to ninth.
const NUMBERED: [&str; 9] = ["1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th"];
/// Counters of a stream: one for keys, one for `__rand_int__`, one for each numbered placeholder.
pub const COUNTERS: usize = 11;
const COUNTER_KEY: usize = 0;
const COUNTER_INT: usize = 1;
const COUNTER_NUMBERED: usize = 2;
/// Holes of one word whose width varies.
const HOLES_MAX: usize = 8;

/// What goes into a hole.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Hole {
    /// The number of a key, without padding.
    Key,
    /// A value.
    Data,
    /// A whole number below 2^31, uniform.
    Score,
    /// Twelve digits, new at each place.
    Int,
    /// Twelve digits, the same at all places of a command with the same number (0 to 8).
    Numbered(u8),
    /// A tag that leads to the connection's node.
    Tag,
    /// Seconds of `--expiry-range`.
    Expiry,
}

/// A part of a word.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(Vec<u8>),
    Hole(Hole),
}

/// What a command needs to be known of, besides its text.
#[derive(Clone, Debug)]
pub struct Context {
    /// Numbers of keys, and of `__rand_int__`.
    pub keys: Sampler,
    /// What comes before the number of a key.
    pub key_prefix: Vec<u8>,
    /// Whether `__rand_int__` and its kin are replaced; else they are sent as they stand, as valkey-benchmark does without `-r`.
    pub ints: bool,
    /// Whether `{tag}` is replaced: in a cluster only.
    pub tags: bool,
    /// Values.
    pub data: Data,
    /// Values follow from keys, so that they can be checked.
    pub verify: bool,
    /// Seconds to live, both ends included.
    pub expiry: Option<(u64, u64)>,
}

/// What changes from request to request: one per connection.
#[derive(Clone, Debug)]
pub struct Chance {
    pub rng: Rng,
    pub counters: [Counter; COUNTERS],
    /// What replaces `{tag}`.
    pub tag: [u8; TAG_WIDTH],
}

/// One step of writing a request.
#[derive(Clone, Debug)]
enum Step {
    Literal(Range<usize>),
    /// A hole of fixed width.
    Hole(Hole),
    /// A word of varying width, with its length before it.
    Word(Vec<Piece>),
}

/// One command.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    steps: Vec<Step>,
    /// Some hole is the key's number.
    has_key: bool,
    has_tag: bool,
    /// Some hole draws from the range of keys.
    draws: bool,
    numbered: bool,
    words: usize,
    flat: Option<Flat>,
}

/// A command whose requests all have the same length: many of them as they stand, and where the holes of one are.
#[derive(Clone, Debug)]
struct Flat {
    images: Vec<u8>,
    length: usize,
    holes: Vec<(usize, usize, Hole)>,
}

/// Longer requests are not worth it: copying them is what costs.
const FLAT_BYTES_MAX: usize = 4 << 10;
/// Requests in `Flat::images`.
const IMAGES: usize = 16;

impl Template {
    /// From the words of a command; at least one.
    pub fn new(words: &[Vec<u8>], context: &Context) -> Result<Template> {
        let mut template = Template {
            bytes: Vec::new(),
            steps: Vec::new(),
            has_key: false,
            has_tag: false,
            draws: false,
            numbered: false,
            words: words.len(),
            flat: None,
        };
        let mut text = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let pieces = pieces(word, context)?;
            pieces.iter().for_each(|piece| template.note(piece));
            template.add_word(pieces, context, &mut text)?;
        }
        template.literal(&mut text);
        template.flat = template.flatten(context);
        Ok(template)
    }

    /// Bytes that are sent as they stand: an inline command.
    #[must_use]
    pub fn raw(bytes: &[u8]) -> Template {
        let steps = vec![Step::Literal(0..bytes.len())];
        let flat = Flat { images: bytes.repeat(IMAGES), length: bytes.len(), holes: Vec::new() };
        Template {
            bytes: bytes.to_vec(),
            steps,
            has_key: false,
            has_tag: false,
            draws: false,
            numbered: false,
            words: 1,
            flat: Some(flat),
        }
    }

    /// Whether the command has `__key__`.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.has_key
    }

    /// Whether the command has `{tag}` that is replaced.
    #[must_use]
    pub fn has_tag(&self) -> bool {
        self.has_tag
    }

    /// Words of the command, its name included.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Whether the command draws numbers of the range of keys.
    #[must_use]
    pub fn draws(&self) -> bool {
        self.draws
    }

    fn note(&mut self, piece: &Piece) {
        match piece {
            Piece::Hole(Hole::Key) => (self.has_key, self.draws) = (true, true),
            Piece::Hole(Hole::Int) => self.draws = true,
            Piece::Hole(Hole::Numbered(_)) => (self.draws, self.numbered) = (true, true),
            Piece::Hole(Hole::Tag) => self.has_tag = true,
            _ => {}
        }
    }

    fn add_word(&mut self, pieces: Vec<Piece>, context: &Context, text: &mut Vec<u8>) -> Result<()> {
        let widths: Option<Vec<usize>> = pieces.iter().map(|piece| width(piece, context)).collect();
        let Some(widths) = widths else {
            if pieces.iter().filter(|piece| matches!(piece, Piece::Hole(_))).count() > HOLES_MAX {
                return Err(Fault::new(format!(
                    "a word of a command can have {HOLES_MAX} placeholders at most"
                )));
            }
            self.literal(text);
            self.steps.push(Step::Word(pieces));
            text.extend_from_slice(b"\r\n");
            return Ok(());
        };
        text.extend_from_slice(format!("${}\r\n", widths.iter().sum::<usize>()).as_bytes());
        for piece in pieces {
            match piece {
                Piece::Text(bytes) => text.extend_from_slice(&bytes),
                Piece::Hole(hole) => {
                    self.literal(text);
                    self.steps.push(Step::Hole(hole));
                }
            }
        }
        text.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// The one image of a command whose holes have fixed widths and nothing to do with each other.
    fn flatten(&self, context: &Context) -> Option<Flat> {
        if self.numbered || context.verify || self.bytes.len() > FLAT_BYTES_MAX {
            return None;
        }
        let (mut image, mut holes) = (Vec::new(), Vec::new());
        for step in &self.steps {
            match step {
                Step::Literal(range) => image.extend_from_slice(&self.bytes[range.clone()]),
                Step::Hole(hole) => {
                    let width = width(&Piece::Hole(*hole), context)?;
                    holes.push((image.len(), width, *hole));
                    image.resize(image.len() + width, b'0');
                }
                Step::Word(_) => return None,
            }
        }
        (image.len() <= FLAT_BYTES_MAX).then(|| Flat {
            images: image.repeat(IMAGES),
            length: image.len(),
            holes,
        })
    }

    /// Makes a step of the text gathered so far.
    fn literal(&mut self, text: &mut Vec<u8>) {
        if !text.is_empty() {
            let start = self.bytes.len();
            self.bytes.append(text);
            self.steps.push(Step::Literal(start..self.bytes.len()));
        }
    }

    /// Appends `count` requests to `out` if that is cheaper than one by one; else says no.
    #[inline]
    pub fn write_many(
        &self,
        context: &Context,
        chance: &mut Chance,
        count: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(flat) = &self.flat else { return false };
        let start = out.len();
        let mut left = count;
        while left > 0 {
            let here = left.min(IMAGES);
            out.extend_from_slice(&flat.images[..here * flat.length]);
            left -= here;
        }
        for request in out[start..].chunks_exact_mut(flat.length) {
            for (at, width, hole) in &flat.holes {
                let place = &mut request[*at..at + width];
                match hole {
                    Hole::Int => {
                        let counter = &mut chance.counters[COUNTER_INT];
                        write_int(context.keys.draw(&mut chance.rng, counter), place);
                    }
                    Hole::Data => place.copy_from_slice(context.data.draw(&mut chance.rng)),
                    Hole::Tag => place.copy_from_slice(&chance.tag),
                    Hole::Key | Hole::Score | Hole::Numbered(_) | Hole::Expiry => {}
                }
            }
        }
        true
    }

    /// Appends one request to `out`. Returns the number of its key, of the last one if there are several, 0 if there is none.
    #[inline]
    pub fn write(&self, context: &Context, chance: &mut Chance, out: &mut Vec<u8>) -> u64 {
        let mut numbered = [0; NUMBERED.len()];
        if self.numbered {
            for (slot, counter) in numbered.iter_mut().zip(&mut chance.counters[COUNTER_NUMBERED..]) {
                *slot = context.keys.draw(&mut chance.rng, counter);
            }
        }
        let mut key = 0;
        for step in &self.steps {
            match step {
                Step::Literal(range) => out.extend_from_slice(&self.bytes[range.clone()]),
                Step::Hole(hole) => {
                    fill(*hole, value(*hole, context, chance, &numbered, &mut key), chance, out);
                }
                Step::Word(pieces) => write_word(pieces, context, chance, &numbered, &mut key, out),
            }
        }
        key
    }
}

/// What a hole is filled with.
#[derive(Copy, Clone)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Tag,
}

/// Writes twelve digits, eight of them at once: halves are split into pairs, pairs into digits, in the lanes of one word.
#[inline]
fn write_int(number: u64, place: &mut [u8]) {
    const EIGHT: u64 = 100_000_000;
    let Some(place) = place.first_chunk_mut::<INT_WIDTH>().filter(|_| number < 10_000 * EIGHT) else {
        return;
    };
    let high = eight_digits(number / EIGHT);
    place[..4].copy_from_slice(&high[4..]);
    place[4..].copy_from_slice(&eight_digits(number % EIGHT));
}

/// The eight digits of a number below 10^8.
#[inline]
fn eight_digits(number: u64) -> [u8; 8] {
    // Two numbers below 10^4 in lanes of 32 bits, four below 10^2 in lanes of 16, eight digits in lanes of 8. The products stay inside
    // their lanes: 9999 * 5243 < 2^32 and 99 * 103 < 2^16, and both shifts divide exactly in these ranges.
    let fours = (number / 10_000) | (number % 10_000) << 32;
    let hundreds = ((fours * 5243) >> 19) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - tens * 10) << 8;
    (digits + 0x3030_3030_3030_3030).to_le_bytes()
}

/// Decides what goes into a hole.
#[inline]
fn value<'a>(
    hole: Hole,
    context: &'a Context,
    chance: &mut Chance,
    numbered: &[u64; NUMBERED.len()],
    key: &mut u64,
) -> Value<'a> {
    match hole {
        Hole::Key => {
            *key = context.keys.draw(&mut chance.rng, &mut chance.counters[COUNTER_KEY]);
            Value::Number(*key)
        }
        Hole::Int => {
            *key = context.keys.draw(&mut chance.rng, &mut chance.counters[COUNTER_INT]);
            Value::Number(*key)
        }
        Hole::Numbered(index) => Value::Number(numbered[usize::from(index)]),
        Hole::Data if context.verify => Value::Bytes(context.data.of_key(*key)),
        Hole::Data => Value::Bytes(context.data.draw(&mut chance.rng)),
        Hole::Score => Value::Number(chance.rng.below(SCORE_END)),
        Hole::Expiry => {
            let (low, high) = context.expiry.unwrap_or((1, 1));
            Value::Number(low + chance.rng.below(high - low + 1))
        }
        Hole::Tag => Value::Tag,
    }
}

/// Writes what goes into a hole.
#[inline]
fn fill(hole: Hole, value: Value<'_>, chance: &Chance, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) => {
            let mut buffer = [0; I64_LEN_MAX];
            let digits = format_u64(number, &mut buffer);
            if matches!(hole, Hole::Int | Hole::Numbered(_)) {
                let zeros = INT_WIDTH.saturating_sub(digits.len());
                out.extend_from_slice(&[b'0'; INT_WIDTH][..zeros]);
            }
            out.extend_from_slice(digits);
        }
        Value::Bytes(bytes) => out.extend_from_slice(bytes),
        Value::Tag => out.extend_from_slice(&chance.tag),
    }
}

/// Writes a word of varying width: first all values are decided, then the length is known.
#[inline]
fn write_word(
    pieces: &[Piece],
    context: &Context,
    chance: &mut Chance,
    numbered: &[u64; NUMBERED.len()],
    key: &mut u64,
    out: &mut Vec<u8>,
) {
    let mut values = [Value::Tag; HOLES_MAX];
    let mut length = 0;
    let mut count = 0;
    for piece in pieces {
        match piece {
            Piece::Text(text) => length += text.len(),
            Piece::Hole(hole) => {
                let value = value(*hole, context, chance, numbered, key);
                length += match value {
                    Value::Number(_) if matches!(hole, Hole::Int | Hole::Numbered(_)) => INT_WIDTH,
                    Value::Number(number) => digits_u64(number),
                    Value::Bytes(bytes) => bytes.len(),
                    Value::Tag => TAG_WIDTH,
                };
                values[count] = value;
                count += 1;
            }
        }
    }
    let mut buffer = [0; I64_LEN_MAX];
    out.push(b'$');
    out.extend_from_slice(format_u64(length as u64, &mut buffer));
    out.extend_from_slice(b"\r\n");
    let mut values = values.iter();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Hole(hole) => fill(*hole, *values.next().expect("each hole has a value"), chance, out),
        }
    }
}

/// The width of a piece, if it is always the same.
fn width(piece: &Piece, context: &Context) -> Option<usize> {
    match piece {
        Piece::Text(text) => Some(text.len()),
        Piece::Hole(Hole::Int | Hole::Numbered(_)) => Some(INT_WIDTH),
        Piece::Hole(Hole::Tag) => Some(TAG_WIDTH),
        Piece::Hole(Hole::Data) => context.data.fixed_size(),
        Piece::Hole(Hole::Key | Hole::Score | Hole::Expiry) => None,
    }
}

/// Cuts a word at its placeholders.
fn pieces(word: &[u8], context: &Context) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut at = 0;
    while at < word.len() {
        let Some((length, hole)) = placeholder(&word[at..], context)? else {
            text.push(word[at]);
            at += 1;
            continue;
        };
        at += length;
        match hole {
            None => text.extend_from_slice(&word[at - length..at]),
            Some(hole) => {
                if hole == Hole::Key {
                    text.extend_from_slice(&context.key_prefix);
                }
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Hole(hole));
            }
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// The placeholder that `rest` begins with: its length, and what it stands for (itself, if nothing).
fn placeholder(rest: &[u8], context: &Context) -> Result<Option<(usize, Option<Hole>)>> {
    if rest.starts_with(b"{tag}") {
        return Ok(Some((TAG_WIDTH, context.tags.then_some(Hole::Tag))));
    }
    let Some(inside) = rest.strip_prefix(b"__") else { return Ok(None) };
    let Some(end) = inside.windows(2).position(|two| two == b"__") else { return Ok(None) };
    let name = &inside[..end];
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return Ok(None);
    }
    let name = String::from_utf8_lossy(name);
    let number = name.strip_prefix("rand_").and_then(|nth| NUMBERED.iter().position(|known| *known == nth));
    let hole = match &*name {
        "key" => Some(Hole::Key),
        "data" => Some(Hole::Data),
        "score" => Some(Hole::Score),
        "rand_int" => context.ints.then_some(Hole::Int),
        "expiry" if context.expiry.is_some() => Some(Hole::Expiry),
        "expiry" => return Err(Fault::new("__expiry__ needs --expiry-range")),
        _ => match number {
            Some(number) => context.ints.then_some(Hole::Numbered(number as u8)),
            None => {
                return Err(Fault::new(format!(
                    "there is no placeholder __{name}__: use __key__, __data__, __score__, __expiry__, __rand_int__, __rand_1st__ to __rand_9th__, {{tag}}"
                )));
            }
        },
    };
    Ok(Some((end + 4, hole)))
}

#[cfg(test)]
mod tests;
