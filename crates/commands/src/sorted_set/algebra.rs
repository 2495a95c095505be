//! Unions, intersections and differences of sorted sets, replied, stored or counted.
//!
//! Plain sets are inputs too: their members have the score 1.

use std::collections::HashMap;
use std::ops::ControlFlow;

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use stdx::num::{parse_f64, parse_i64};
use types::packed::IntText;
use types::set::Set;
use types::zset::{self, SortedSet};
use types::{Type, View};

use super::common::{parse_integer, reply_members, store};

/// What is made of several sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What a member gets that several sets have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Result<Aggregate, CommandError> {
        match () {
            _ if word.eq_ignore_ascii_case(b"SUM") => Ok(Aggregate::Sum),
            _ if word.eq_ignore_ascii_case(b"MIN") => Ok(Aggregate::Min),
            _ if word.eq_ignore_ascii_case(b"MAX") => Ok(Aggregate::Max),
            _ => Err(CommandError::SYNTAX),
        }
    }

    /// Infinities of both signs sum up to 0.
    fn combine(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => number(score + other),
            Aggregate::Min if other < score => other,
            Aggregate::Max if other > score => other,
            Aggregate::Min | Aggregate::Max => score,
        }
    }
}

/// 0 for what is not a number.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// An input: a sorted set, or a plain set, whose members all have the score 1.
#[derive(Clone, Copy)]
enum Source<'a> {
    Sorted(SortedSet<'a>),
    Plain(Set<'a>),
}

impl<'a> Source<'a> {
    fn new(view: View<'a>) -> Option<Source<'a>> {
        match view.form().type_of() {
            Type::SortedSet => Some(Source::Sorted(SortedSet::new(view))),
            Type::Set => Some(Source::Plain(Set::of(view))),
            _ => None,
        }
    }

    fn len(self) -> u64 {
        match self {
            Source::Sorted(set) => set.len(),
            Source::Plain(set) => set.len() as u64,
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Sorted(set) => set.score(member),
            Source::Plain(set) => set.contains(member).then_some(1.0),
        }
    }

    /// Calls `f` with the members until it says that this is enough.
    fn visit(self, mut f: impl FnMut(&[u8], f64) -> ControlFlow<()>) {
        let _ = match self {
            Source::Sorted(set) => {
                set.walk(0..set.len(), false).try_for_each(|(member, score)| f(member, score))
            }
            Source::Plain(set) => set.visit(|piece| f(piece.to_bytes(&mut IntText::default()), 1.0)),
        };
    }
}

/// One input of a command: the word of its key, how many members it has, and its weight.
#[derive(Clone, Copy)]
struct Input {
    index: usize,
    len: u64,
    weight: f64,
}

/// What the words ask for.
struct Request {
    inputs: Vec<Input>,
    aggregate: Aggregate,
    with_scores: bool,
    /// ZINTERCARD: count no further.
    limit: u64,
}

/// Members with their scores, in order.
type Found = Vec<(Box<[u8]>, f64)>;

impl Request {
    /// Reads `numkeys key [key ...]` and the options from word `start` on, and looks the keys up.
    fn parse(
        cx: &mut Exec<'_>,
        args: Args<'_>,
        start: usize,
        operation: Operation,
        name: &str,
    ) -> Result<Request, CommandError> {
        let keys = parse_integer(&args[start])?;
        if keys < 1 {
            return Err(CommandError::new(format!(
                "ERR at least 1 input key is needed for '{name}' command"
            )));
        }
        let first = start + 1;
        let keys = usize::try_from(keys).ok().filter(|keys| *keys <= args.len() - first);
        let end = first + keys.ok_or(CommandError::SYNTAX)?;
        let mut inputs = Vec::with_capacity(end - first);
        for index in first..end {
            let key = cx.key(args, index);
            let len = match cx.read(key).map(|entry| entry.collection().and_then(Source::new)) {
                None => 0,
                Some(Some(source)) => source.len(),
                Some(None) => return Err(CommandError::WRONG_TYPE),
            };
            inputs.push(Input { index, len, weight: 1.0 });
        }
        let mut request = Request { inputs, aggregate: Aggregate::Sum, with_scores: false, limit: u64::MAX };
        request.parse_options(args, end, operation, name)?;
        if operation != Operation::Difference {
            request.inputs.sort_by_key(|input| input.len);
        }
        Ok(request)
    }

    fn parse_options(
        &mut self,
        args: Args<'_>,
        start: usize,
        operation: Operation,
        name: &str,
    ) -> Result<(), CommandError> {
        let counts = name == "zintercard";
        let scores = operation != Operation::Difference && !counts;
        let mut index = start;
        while let Some(word) = args.get(index) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let behind = args.len() - index - 1;
            match () {
                _ if scores && behind >= self.inputs.len() && is("WEIGHTS") => {
                    for input in &mut self.inputs {
                        index += 1;
                        input.weight = parse_f64(&args[index])
                            .ok_or(CommandError::fixed("ERR weight value is not a float"))?;
                    }
                }
                _ if scores && behind >= 1 && is("AGGREGATE") => {
                    index += 1;
                    self.aggregate = Aggregate::parse(&args[index])?;
                }
                _ if !name.ends_with("store") && !counts && is("WITHSCORES") => self.with_scores = true,
                _ if counts && behind >= 1 && is("LIMIT") => {
                    index += 1;
                    let limit = parse_i64(&args[index]).and_then(|limit| u64::try_from(limit).ok());
                    let limit = limit.ok_or(CommandError::fixed("ERR LIMIT can't be negative"))?;
                    self.limit = if limit == 0 { u64::MAX } else { limit };
                }
                _ => return Err(CommandError::SYNTAX),
            }
            index += 1;
        }
        Ok(())
    }

    fn find(&self, cx: &Exec<'_>, args: Args<'_>, operation: Operation) -> Found {
        let sources: Vec<(Option<Source<'_>>, f64)> = self
            .inputs
            .iter()
            .map(|input| {
                let entry = cx.glance(cx.key(args, input.index));
                (entry.and_then(|entry| entry.collection()).and_then(Source::new), input.weight)
            })
            .collect();
        let mut found = match operation {
            Operation::Union => self.union(&sources),
            Operation::Intersection => self.narrow(&sources, |score, weight, other| {
                Some(self.aggregate.combine(score, weight * other?))
            }),
            Operation::Difference => {
                self.narrow(&sources, |score, _, other| if other.is_some() { None } else { Some(score) })
            }
        };
        found.sort_unstable_by(|a, b| zset::compare((a.1, &a.0), (b.1, &b.0)));
        found
    }

    fn union(&self, sources: &[(Option<Source<'_>>, f64)]) -> Found {
        let mut scores: HashMap<Box<[u8]>, f64> = HashMap::new();
        for (source, weight) in sources {
            let Some(source) = source else { continue };
            source.visit(|member, score| {
                let score = number(weight * score);
                match scores.get_mut(member) {
                    Some(sum) => *sum = self.aggregate.combine(*sum, score),
                    None => _ = scores.insert(member.into(), score),
                }
                ControlFlow::Continue(())
            });
        }
        scores.into_iter().collect()
    }

    /// The members of the first input that remain when each other has been asked: `keep` gets the score so far, the other's weight, and the score there.
    fn narrow(
        &self,
        sources: &[(Option<Source<'_>>, f64)],
        keep: impl Fn(f64, f64, Option<f64>) -> Option<f64>,
    ) -> Found {
        let mut found = Found::new();
        let [(Some(first), weight), others @ ..] = sources else { return found };
        first.visit(|member, score| {
            let kept = others.iter().try_fold(number(weight * score), |score, (source, weight)| {
                keep(score, *weight, source.and_then(|source| source.score(member)))
            });
            if let Some(score) = kept {
                found.push((member.into(), score));
            }
            if (found.len() as u64) < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found
    }
}

fn borrowed(found: &Found) -> Vec<(&[u8], f64)> {
    found.iter().map(|(member, score)| (&**member, *score)).collect()
}

fn answer(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    operation: Operation,
    name: &str,
) -> Result<Effect, CommandError> {
    let request = Request::parse(cx, args, 1, operation, name)?;
    let found = request.find(cx, args, operation);
    let members = borrowed(&found);
    reply_members(reply, members.len(), members.into_iter(), request.with_scores);
    Ok(Effect::None)
}

fn keep(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    operation: Operation,
    name: &str,
) -> Result<Effect, CommandError> {
    let request = Request::parse(cx, args, 2, operation, name)?;
    let found = request.find(cx, args, operation);
    let members = borrowed(&found);
    reply.int(members.len() as i64);
    let key = cx.key(args, 1);
    let event = match operation {
        Operation::Union => "zunionstore",
        Operation::Intersection => "zinterstore",
        Operation::Difference => "zdiffstore",
    };
    Ok(store(cx, key, &members, event))
}

/// `ZUNION numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub(super) fn zunion(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    answer(cx, args, reply, Operation::Union, "zunion")
}

/// `ZINTER numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub(super) fn zinter(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    answer(cx, args, reply, Operation::Intersection, "zinter")
}

/// `ZDIFF numkeys key [key ...] [WITHSCORES]`
pub(super) fn zdiff(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    answer(cx, args, reply, Operation::Difference, "zdiff")
}

/// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]`
pub(super) fn zunionstore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    keep(cx, args, reply, Operation::Union, "zunionstore")
}

/// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]`
pub(super) fn zinterstore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    keep(cx, args, reply, Operation::Intersection, "zinterstore")
}

/// `ZDIFFSTORE destination numkeys key [key ...]`
pub(super) fn zdiffstore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    keep(cx, args, reply, Operation::Difference, "zdiffstore")
}

/// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`
pub(super) fn zintercard(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    let request = Request::parse(cx, args, 1, Operation::Intersection, "zintercard")?;
    let found = request.find(cx, args, Operation::Intersection);
    reply.int(found.len() as i64);
    Ok(Effect::None)
}
