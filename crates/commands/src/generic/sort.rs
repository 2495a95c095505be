//! SORT: the elements of a collection in order, by themselves or by what other keys hold.
//!
//! The keys that BY and GET mean follow from the elements, so that with a pattern every shard is entered (`Plan::KeysOrEvery`). Elements are
//! copied out first: what they lie in may be in any of the shards, the destination too.

use std::cmp::Ordering;
use std::ops::Range;

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::{IntText, Key};
use shard::notify::Class;
use stdx::num::{I64_LEN_MAX, format_i64, parse_f64, parse_i64};
use types::hash::Hash;
use types::list::{self, Item, Side};
use types::packed::Piece;
use types::set::Set;
use types::zset::SortedSet;
use types::{Form, Type, View};

use crate::effects::record;

const NO_NUMBER: CommandError = CommandError::fixed("ERR One or more scores can't be converted into double");

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE destination]`
pub(super) fn sort(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let options = Options::parse(args, true)?;
    let key = cx.key(args, 1);
    let sorted = Sorted::of(cx, key, &options)?;
    match options.store {
        None => {
            sorted.reply(cx, &options, reply);
            Ok(Effect::None)
        }
        Some(at) => Ok(sorted.store(cx, cx.key(args, at), &options, reply)),
    }
}

/// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]`
pub(super) fn sort_ro(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let options = Options::parse(args, false)?;
    let key = cx.key(args, 1);
    Sorted::of(cx, key, &options)?.reply(cx, &options, reply);
    Ok(Effect::None)
}

/// Whether some word may be a pattern, whose keys may be in any shard.
pub(super) fn reads_patterns(args: Args<'_>) -> bool {
    args.from(2).iter().any(|word| word.contains(&b'*'))
}

/// What the words say.
struct Options<'a> {
    /// Sort by what this means for each element; none: by the element itself.
    by: Option<Pattern<'a>>,
    /// BY without a `*`: the order of the collection stays.
    unsorted: bool,
    offset: i64,
    count: i64,
    get: Vec<Get<'a>>,
    descending: bool,
    alpha: bool,
    /// The word that names the destination.
    store: Option<usize>,
}

/// What GET adds for each element.
enum Get<'a> {
    /// `#`
    Element,
    /// Without a `*` it means no key.
    Nothing,
    Value(Pattern<'a>),
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, may_store: bool) -> Result<Options<'a>, CommandError> {
        let mut options = Options {
            by: None,
            unsorted: false,
            offset: 0,
            count: -1,
            get: Vec::new(),
            descending: false,
            alpha: false,
            store: None,
        };
        let integer = |word: &[u8]| parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let is = |name: &str, words: usize| {
                word.eq_ignore_ascii_case(name.as_bytes()) && at + words < args.len()
            };
            let next = args.get(at + 1).unwrap_or_default();
            match () {
                () if is("ASC", 0) => options.descending = false,
                () if is("DESC", 0) => options.descending = true,
                () if is("ALPHA", 0) => options.alpha = true,
                () if is("LIMIT", 2) => {
                    (options.offset, options.count) = (integer(next)?, integer(&args[at + 2])?);
                    at += 2;
                }
                () if is("STORE", 1) && may_store => {
                    options.store = Some(at + 1);
                    at += 1;
                }
                () if is("BY", 1) => {
                    options.by = Pattern::parse(next);
                    options.unsorted |= options.by.is_none();
                    at += 1;
                }
                () if is("GET", 1) => {
                    let get = match next {
                        b"#" => Get::Element,
                        pattern => Pattern::parse(pattern).map_or(Get::Nothing, Get::Value),
                    };
                    options.get.push(get);
                    at += 1;
                }
                () => return Err(CommandError::SYNTAX),
            }
            at += 1;
        }
        Ok(options)
    }

    /// The places among `len` elements that LIMIT leaves.
    fn range(&self, len: usize) -> Range<usize> {
        let start = usize::try_from(self.offset.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(self.count).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }
}

/// A word in which the element takes the place of the first `*`: a key, or the field behind `->` of a hash.
struct Pattern<'a> {
    before: &'a [u8],
    after: &'a [u8],
    field: Option<&'a [u8]>,
}

impl<'a> Pattern<'a> {
    /// None if there is no `*`.
    fn parse(word: &'a [u8]) -> Option<Pattern<'a>> {
        let star = word.iter().position(|byte| *byte == b'*')?;
        let (before, after) = (&word[..star], &word[star + 1..]);
        let arrow = after.windows(2).position(|pair| pair == b"->");
        Some(match arrow.filter(|arrow| arrow + 2 < after.len()) {
            Some(arrow) => Pattern { before, after: &after[..arrow], field: Some(&after[arrow + 2..]) },
            None => Pattern { before, after, field: None },
        })
    }

    /// Calls `use_value` with what is there for an element, if anything.
    fn value<R>(&self, cx: &mut Exec<'_>, element: &[u8], use_value: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let bytes = [self.before, element, self.after].concat();
        let (key, now_ms) = (cx.layout.key(&bytes), cx.now_ms);
        let Some(entry) = cx.read(key) else { return use_value(None) };
        let mut text = IntText::default();
        let Some(field) = self.field else {
            return use_value(entry.string().map(|string| string.to_bytes(&mut text)));
        };
        let hash = entry.collection().filter(|view| view.form().type_of() == Type::Hash);
        let found = hash.and_then(|view| Hash::of(view, now_ms).get(field));
        use_value(found.map(|found| piece(found.value, &mut text)))
    }
}

fn piece<'b>(piece: Piece<'b>, text: &'b mut [u8; I64_LEN_MAX]) -> &'b [u8] {
    match piece {
        Piece::Bytes(bytes) => bytes,
        Piece::Int(integer) => format_i64(integer, text),
    }
}

/// Strings one after another.
#[derive(Default)]
struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, number: usize) -> &[u8] {
        &self.bytes[if number == 0 { 0 } else { self.ends[number - 1] }..self.ends[number]]
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator + Clone {
        (0..self.len()).map(|number| self.get(number))
    }
}

/// Elements, and which of them are wanted in which order.
struct Sorted {
    elements: Strings,
    order: Vec<usize>,
}

impl Sorted {
    fn of(cx: &mut Exec<'_>, key: Key<'_>, options: &Options<'_>) -> Result<Sorted, CommandError> {
        let mut elements = Strings::default();
        let mut has_order = true;
        let encoded = cx.peek(key).and_then(|entry| entry.collection());
        if encoded.is_some_and(|view| view.form() == Form::SortedSetListpack)
            && let Some(mut slot) = cx.slot(key, Type::SortedSet)?
        {
            // The peers convert a sorted set before they sort it, as OBJECT ENCODING shows.
            slot.set_form(Form::SortedSetSkiplist);
        }
        if let Some(entry) = cx.read(key) {
            let view = entry.collection().ok_or(CommandError::WRONG_TYPE)?;
            has_order = view.form().type_of() != Type::Set;
            collect(view, &mut elements)?;
        }
        let range = options.range(elements.len());
        let mut order: Vec<usize> = (0..elements.len()).collect();
        if !options.unsorted {
            arrange(cx, &elements, &mut order, options)?;
        } else if has_order && options.descending {
            order.reverse();
        } else if !has_order && options.store.is_some() {
            // What is stored must not depend on how a set is kept.
            order.sort_by(|a, b| elements.get(*a).cmp(elements.get(*b)));
            if options.descending {
                order.reverse();
            }
        }
        order.truncate(range.end);
        order.drain(..range.start);
        Ok(Sorted { elements, order })
    }

    fn reply(&self, cx: &mut Exec<'_>, options: &Options<'_>, reply: &mut Reply) {
        reply.array(self.order.len() * options.get.len().max(1));
        self.each(cx, options, |value| match value {
            Some(value) => reply.bulk(value),
            None => reply.null(),
        });
    }

    fn store(&self, cx: &mut Exec<'_>, key: Key<'_>, options: &Options<'_>, reply: &mut Reply) -> Effect {
        let mut values = Strings::default();
        self.each(cx, options, |value| values.push(value.unwrap_or_default()));
        let removed = cx.find(key).is_some() && cx.keyspace(key).remove(key);
        reply.int(values.len() as i64);
        if values.len() > 0 {
            let limits = cx.settings.limits;
            list::push(&mut cx.create_over(key, list::NEW, removed), Side::Right, values.iter(), &limits);
            cx.changed(key);
            cx.notify(Class::LIST, "sortstore", key);
        } else if removed {
            cx.notify(Class::GENERIC, "del", key);
        } else {
            return Effect::None;
        }
        // The result, not the question: the order of a set, and of equal weights, may be another one where this is replayed.
        cx.rewritten(|| {
            let mut records = vec![record(&[b"UNLINK", key.bytes])];
            if values.len() > 0 {
                let words: Vec<&[u8]> =
                    [b"RPUSH".as_slice(), key.bytes].into_iter().chain(values.iter()).collect();
                records.push(record(&words));
            }
            records
        })
    }

    /// Calls `use_value` with everything that is given for the wanted elements.
    fn each(&self, cx: &mut Exec<'_>, options: &Options<'_>, mut use_value: impl FnMut(Option<&[u8]>)) {
        for number in &self.order {
            let element = self.elements.get(*number);
            if options.get.is_empty() {
                use_value(Some(element));
            }
            for get in &options.get {
                match get {
                    Get::Element => use_value(Some(element)),
                    Get::Nothing => use_value(None),
                    Get::Value(pattern) => pattern.value(cx, element, &mut use_value),
                }
            }
        }
    }
}

/// Copies the elements of a list, a set or a sorted set in its own order.
fn collect(view: View<'_>, elements: &mut Strings) -> Result<(), CommandError> {
    let mut text = IntText::default();
    match view.form().type_of() {
        Type::List => list::each(view, 0..u64::MAX, |item| match item {
            Item::Piece(item) => elements.push(piece(item, &mut text)),
            Item::Big(big) => elements.push(big.as_ref()),
        }),
        Type::Set => Set::of(view).for_each(|member| elements.push(piece(member, &mut text))),
        Type::SortedSet => {
            let set = SortedSet::new(view);
            set.walk(0..set.len(), false).for_each(|(member, _)| elements.push(member));
        }
        Type::Hash | Type::Stream => return Err(CommandError::WRONG_TYPE),
    }
    Ok(())
}

/// Brings the numbers of elements into the order that the options ask for. Equal ones stay as they are.
fn arrange(
    cx: &mut Exec<'_>,
    elements: &Strings,
    order: &mut [usize],
    options: &Options<'_>,
) -> Result<(), CommandError> {
    let directed = |ordering: Ordering| if options.descending { ordering.reverse() } else { ordering };
    // What is not stored is ordered as the peers' C library does it: up to a zero byte.
    let text: fn(&[u8]) -> &[u8] = if options.store.is_some() { |string| string } else { up_to_zero };
    match (&options.by, options.alpha) {
        (None, true) => {
            order.sort_by(|a, b| directed(text(elements.get(*a)).cmp(text(elements.get(*b)))));
        }
        (Some(pattern), true) => {
            let mut weights: Vec<Option<Vec<u8>>> = Vec::with_capacity(elements.len());
            for element in elements.iter() {
                weights.push(pattern.value(cx, element, |value| value.map(|value| text(value).to_vec())));
            }
            order.sort_by(|a, b| directed(weights[*a].cmp(&weights[*b])));
        }
        (by, false) => {
            let mut weights = Vec::with_capacity(elements.len());
            for element in elements.iter() {
                weights.push(match by {
                    Some(pattern) => pattern.value(cx, element, |value| value.map_or(Ok(0.0), weight))?,
                    None => weight(element)?,
                });
            }
            // Equal weights: by the elements, so that the result is always the same.
            order.sort_by(|a, b| {
                let weights = weights[*a].partial_cmp(&weights[*b]).unwrap_or(Ordering::Equal);
                directed(weights.then_with(|| elements.get(*a).cmp(elements.get(*b))))
            });
        }
    }
    Ok(())
}

/// The number that a string writes; what follows a zero byte is not looked at.
fn weight(string: &[u8]) -> Result<f64, CommandError> {
    parse_f64(up_to_zero(string)).ok_or(NO_NUMBER)
}

fn up_to_zero(string: &[u8]) -> &[u8] {
    string.split(|byte| *byte == 0).next().unwrap_or_default()
}
