//! Adding members with their places, and asking where they are.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use types::geo::Point;
use types::zset::When;

use super::{distance_text, point, unit};
use crate::sorted_set::add::add_all;
use crate::sorted_set::common::read;

/// `GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]`
pub(super) fn geoadd(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let (mut when, mut with_changed, mut start) = (When::default(), false, 2);
    while let Some(word) = args.get(start) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("NX") => when.missing = true,
            () if is("XX") => when.present = true,
            () if is("CH") => with_changed = true,
            () => break,
        }
        start += 1;
    }
    let words = args.from(start);
    if words.is_empty() || !words.len().is_multiple_of(3) || when.missing && when.present {
        return Err(CommandError::SYNTAX);
    }
    let mut scored = Vec::with_capacity(words.len() / 3);
    for at in (0..words.len()).step_by(3) {
        let member = words.get(at + 2).expect("there are three words for each member");
        scored.push((member, point(&words[at], &words[at + 1])?.score()));
    }
    let counts = add_all(cx, cx.key(args, 1), scored.iter().copied(), when)?;
    reply.int((counts.new + if with_changed { counts.changed } else { 0 }) as i64);
    Ok(if counts.new + counts.changed > 0 { Effect::AsIs } else { Effect::None })
}

/// `GEODIST key member1 member2 [M | KM | FT | MI]`
pub(super) fn geodist(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    if args.len() > 5 {
        return Err(CommandError::SYNTAX);
    }
    let unit = args.get(4).map_or(Ok(1.0), unit)?;
    let set = read(cx, cx.key(args, 1))?;
    let place = |member: &[u8]| set.and_then(|set| set.score(member)).map(Point::of_score);
    match place(&args[2]).zip(place(&args[3])) {
        Some((from, to)) => reply.bulk(distance_text(from.distance(to) / unit).as_bytes()),
        None => reply.null(),
    }
    Ok(Effect::None)
}

/// `GEOPOS key [member ...]`
pub(super) fn geopos(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    each_place(cx, args, reply, |reply, place| match place {
        None => reply.null_array(),
        Some(Point { longitude, latitude }) => {
            reply.array(2);
            reply.human_double(longitude);
            reply.human_double(latitude);
        }
    })
}

/// `GEOHASH key [member ...]`
pub(super) fn geohash(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    each_place(cx, args, reply, |reply, place| match place {
        None => reply.null(),
        Some(place) => reply.bulk(&place.geohash()),
    })
}

fn each_place(
    cx: &mut Exec<'_>,
    args: Args<'_>,
    reply: &mut Reply,
    write: impl Fn(&mut Reply, Option<Point>),
) -> Result<Effect, CommandError> {
    let set = read(cx, cx.key(args, 1))?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members.iter() {
        write(reply, set.and_then(|set| set.score(member)).map(Point::of_score));
    }
    Ok(Effect::None)
}
