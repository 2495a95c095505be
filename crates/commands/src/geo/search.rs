//! Searching: the members within a shape.

use std::cmp::Ordering;

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use types::geo::{Point, Shape};
use types::zset::{self, ScoreRange, SortedSet};

use super::distance_text;
use super::query::{Kind, Order, Query};
use crate::sorted_set::common::{read, store};

/// A member that lies within the shape.
struct Found<'s> {
    member: &'s [u8],
    score: f64,
    point: Point,
    /// Metres from the center.
    distance: f64,
}

/// `GEOSEARCH key [FROMMEMBER member | FROMLONLAT longitude latitude] BYRADIUS radius unit | BYBOX width height unit |
/// BYPOLYGON num-vertices longitude latitude ... [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]`
pub(super) fn geosearch(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    search(cx, args, Kind::Search, reply)
}

/// `GEOSEARCHSTORE destination source ...` as GEOSEARCH, with `STOREDIST` in place of what it replies with.
pub(super) fn geosearchstore(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    search(cx, args, Kind::SearchStore, reply)
}

/// `GEORADIUS key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]`
pub(super) fn georadius(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    search(cx, args, Kind::Around { stores: true }, reply)
}

/// As `GEORADIUS`, without `STORE` and `STOREDIST`.
pub(super) fn georadius_ro(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    search(cx, args, Kind::Around { stores: false }, reply)
}

/// `GEORADIUSBYMEMBER key member radius unit ...` as GEORADIUS
pub(super) fn georadiusbymember(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    search(cx, args, Kind::AroundMember { stores: true }, reply)
}

/// As `GEORADIUSBYMEMBER`, without `STORE` and `STOREDIST`.
pub(super) fn georadiusbymember_ro(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<Effect, CommandError> {
    search(cx, args, Kind::AroundMember { stores: false }, reply)
}

/// Whether a GEORADIUS may name several destinations: the last one counts, but its key specifications find the first.
pub(super) fn stores_twice(args: Args<'_>) -> bool {
    let is_store =
        |word: &&[u8]| word.eq_ignore_ascii_case(b"STORE") || word.eq_ignore_ascii_case(b"STOREDIST");
    args.iter().filter(is_store).count() > 1
}

fn search(cx: &mut Exec<'_>, args: Args<'_>, kind: Kind, reply: &mut Reply) -> Result<Effect, CommandError> {
    let source = cx.key(args, if kind == Kind::SearchStore { 2 } else { 1 });
    let set = read(cx, source)?;
    let query = Query::parse(args, kind, set)?;
    let found = match (set, &query.shape) {
        (Some(set), Some(shape)) => find(set, shape, &query),
        _ => Vec::new(),
    };
    let Some(at) = query.store else {
        reply_with(&found, &query, reply);
        return Ok(Effect::None);
    };
    let mut kept: Vec<(Box<[u8]>, f64)> = found
        .iter()
        .map(|found| {
            let score = if query.store_distance { found.distance / query.unit } else { found.score };
            (found.member.into(), score)
        })
        .collect();
    kept.sort_by(|a, b| zset::compare((a.1, &a.0), (b.1, &b.0)));
    let sorted: Vec<(&[u8], f64)> = kept.iter().map(|(member, score)| (&**member, *score)).collect();
    reply.int(sorted.len() as i64);
    let destination = cx.key(args, at);
    let event = if kind == Kind::SearchStore { "geosearchstore" } else { "georadiusstore" };
    Ok(store(cx, destination, &sorted, event))
}

/// The members within a shape, as many and in the order as the query says.
fn find<'s>(set: SortedSet<'s>, shape: &Shape, query: &Query) -> Vec<Found<'s>> {
    let mut all = Vec::new();
    let enough = query.count.filter(|_| query.any).unwrap_or(usize::MAX);
    for cell in shape.scores() {
        if all.len() >= enough {
            break;
        }
        let (min, max) = (cell.start as f64, cell.end as f64);
        let ranks = set.ranks_by_score(&ScoreRange { min, max, min_excluded: false, max_excluded: true });
        for (member, score) in set.walk(ranks, false) {
            let point = Point::of_score(score);
            let Some(distance) = shape.distance_within(point) else { continue };
            all.push(Found { member, score, point, distance });
            if all.len() >= enough {
                break;
            }
        }
    }
    // A count of the nearest, if nothing else is said.
    let order = match query.order {
        Order::AsFound if query.count.is_some() && !query.any => Order::Nearest,
        order => order,
    };
    let nearer =
        |a: &Found<'_>, b: &Found<'_>| a.distance.partial_cmp(&b.distance).unwrap_or(Ordering::Equal);
    match order {
        Order::AsFound => {}
        Order::Nearest => all.sort_by(nearer),
        Order::Farthest => all.sort_by(|a, b| nearer(b, a)),
    }
    all.truncate(query.count.unwrap_or(usize::MAX));
    all
}

fn reply_with(found: &[Found<'_>], query: &Query, reply: &mut Reply) {
    reply.array(found.len());
    let extras =
        [query.with_distance, query.with_hash, query.with_place].into_iter().filter(|with| *with).count();
    for Found { member, score, point, distance } in found {
        if extras > 0 {
            reply.array(1 + extras);
        }
        reply.bulk(member);
        if query.with_distance {
            reply.bulk(distance_text(distance / query.unit).as_bytes());
        }
        if query.with_hash {
            reply.int(*score as i64);
        }
        if query.with_place {
            reply.array(2);
            reply.human_double(point.longitude);
            reply.human_double(point.latitude);
        }
    }
}
