//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO. How clients are told of changes: `crate::tracking`.

use std::sync::Arc;

use command::{CommandError, Effect};
use reactor::ConnId;
use resp::{Args, Reply};
use router::task::Ticket;
use shard::exec::Exec;
use shard::plan::Plan;
use stdx::num::parse_i64;

use crate::broadcast::{Answer, answers_as};
use crate::tracking::{Redirect, Tracking};
use crate::worker::{Cx, Flow, Worker};

const NO_SUCH_CLIENT: CommandError =
    CommandError::fixed("ERR The client ID you want redirect to does not exist");

/// The words of CLIENT TRACKING.
struct Options {
    on: bool,
    wanted: Tracking,
    /// In the order in which they came.
    prefixes: Vec<Box<[u8]>>,
}

/// What is wrong with the words, or nothing; with the number of the client that is redirected to, which is looked up before anything behind it counts.
type Parsed = (Result<Options, CommandError>, Option<i64>);

fn parse(args: Args<'_>) -> Parsed {
    let mut options = Options { on: false, wanted: Tracking::default(), prefixes: Vec::new() };
    let mut redirect = None;
    let mut words = args.from(3).iter().peekable();
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("redirect") && words.peek().is_some() => {
                if redirect.is_some_and(|id| id != 0) {
                    let twice =
                        CommandError::fixed("ERR A client can only redirect to a single other client");
                    return (Err(twice), redirect);
                }
                match words.next().and_then(parse_i64) {
                    Some(id) => redirect = Some(id),
                    None => return (Err(CommandError::NOT_AN_INTEGER), redirect),
                }
            }
            () if is("bcast") => options.wanted.bcast = true,
            () if is("optin") => options.wanted.optin = true,
            () if is("optout") => options.wanted.optout = true,
            () if is("noloop") => options.wanted.noloop = true,
            () if is("prefix") && words.peek().is_some() => {
                options.prefixes.extend(words.next().map(Box::from));
            }
            () => return (Err(CommandError::SYNTAX), redirect),
        }
    }
    options.on = match args[2].to_ascii_lowercase().as_slice() {
        b"on" => true,
        b"off" => false,
        _ => return (Err(CommandError::SYNTAX), redirect),
    };
    (Ok(options), redirect)
}

/// `CLIENT TRACKING ON | OFF [REDIRECT client-id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
pub(super) fn tracking(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let (options, redirect) = parse(args);
    let Some(id) = redirect else { return set(cx, options?, reply) };
    let Ok(id) = u64::try_from(id) else { return Err(NO_SUCH_CLIENT) };
    let ask = Arc::new(move |worker: &mut Worker| -> Answer {
        let thread = worker.id();
        let found = worker.connections().find(|connection| connection.client.id == id);
        Box::new(found.map(|connection| Ticket { thread, connection: connection.reactor_id.to_bits() }))
    });
    let finish = move |cx: &mut Cx<'_>, answers: Vec<Answer>, reply: &mut Reply| {
        let me = (cx.client.id == id).then_some(cx.ticket);
        let found = answers_as::<Option<Ticket>>(answers).flatten().next().or(me);
        let outcome = match found {
            None => Err(NO_SUCH_CLIENT),
            Some(ticket) => options.and_then(|mut options| {
                options.wanted.redirect = Some(Redirect { id, ticket });
                set(cx, options, reply)
            }),
        };
        outcome.unwrap_or_else(|error| {
            reply.error(error.text());
            Flow::Done
        })
    };
    Ok(cx.broadcast(ask, Box::new(finish)))
}

/// Begins or ends tracking. For BCAST every shard must note changes from now on before the client is answered.
fn set(cx: &mut Cx<'_>, options: Options, reply: &mut Reply) -> Result<Flow, CommandError> {
    const TRACK: Plan = Plan::Every(note_changes);
    let id = ConnId::from_bits(cx.ticket.connection);
    if !options.on {
        cx.worker.untrack(cx.client, id);
        reply.ok();
        return Ok(Flow::Done);
    }
    check(cx.client.tracking.as_deref(), &options)?;
    let Options { mut wanted, mut prefixes, .. } = options;
    if wanted.bcast && prefixes.is_empty() {
        prefixes.push(Box::default());
    }
    wanted.prefixes = prefixes;
    let bcast = wanted.bcast;
    cx.worker.track(cx.client, id, wanted);
    if bcast {
        return Ok(super::on_keys(cx, &TRACK, &[], Args::new(&[], &[]), reply));
    }
    reply.ok();
    Ok(Flow::Done)
}

fn note_changes(cx: &mut Exec<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    for id in cx.shards() {
        cx.shard(id).track(true);
    }
    reply.ok();
    Ok(Effect::None)
}

/// Whether options fit together and to what the client has said before.
fn check(before: Option<&Tracking>, options: &Options) -> Result<(), CommandError> {
    let Options { wanted, prefixes, .. } = options;
    if !wanted.bcast && !prefixes.is_empty() {
        return Err(CommandError::fixed("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    if before.is_some_and(|before| before.bcast != wanted.bcast) {
        return Err(CommandError::fixed(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a \
             different mode.",
        ));
    }
    if wanted.bcast && (wanted.optin || wanted.optout) {
        return Err(CommandError::fixed("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if wanted.optin && wanted.optout {
        return Err(CommandError::fixed("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    let switches = |before: &Tracking| wanted.optin && before.optout || wanted.optout && before.optin;
    if before.is_some_and(switches) {
        return Err(CommandError::fixed(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a \
             different mode.",
        ));
    }
    check_prefixes(before.map_or(&[], |before| &before.prefixes), prefixes)
}

/// No prefix may begin with another one of the same client.
fn check_prefixes(before: &[Box<[u8]>], wanted: &[Box<[u8]>]) -> Result<(), CommandError> {
    let collide = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let error = |a: &[u8], what: &str, b: &[u8]| {
        let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
        CommandError::new(format!(
            "ERR Prefix '{a}' overlaps with {what} prefix '{b}'. Prefixes for a single client must not overlap."
        ))
    };
    for (number, prefix) in wanted.iter().enumerate() {
        if let Some(known) = before.iter().find(|known| collide(known, prefix)) {
            return Err(error(prefix, "an existing", known));
        }
        if let Some(other) = wanted[number + 1..].iter().find(|other| collide(prefix, other)) {
            return Err(error(prefix, "another provided", other));
        }
    }
    Ok(())
}

/// `CLIENT CACHING YES | NO`
pub(super) fn caching(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let Some(tracking) = &mut cx.client.tracking else {
        return Err(CommandError::fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match args[2].to_ascii_lowercase().as_slice() {
        b"yes" if tracking.optin => {}
        b"yes" => {
            return Err(CommandError::fixed(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        b"no" if tracking.optout => {}
        b"no" => {
            return Err(CommandError::fixed(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        _ => return Err(CommandError::SYNTAX),
    }
    tracking.caching = true;
    reply.ok();
    Ok(Flow::Done)
}

/// `CLIENT GETREDIR`
pub(super) fn getredir(cx: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.int(cx.client.redirected_to());
    Ok(Flow::Done)
}

/// `CLIENT TRACKINGINFO`
pub(super) fn trackinginfo(cx: &mut Cx<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let off = Tracking::default();
    let tracking = cx.client.tracking.as_deref();
    let of = tracking.unwrap_or(&off);
    let flags = [
        (tracking.is_none(), "off"),
        (tracking.is_some(), "on"),
        (of.bcast, "bcast"),
        (of.optin, "optin"),
        (of.optin && of.caching, "caching-yes"),
        (of.optout, "optout"),
        (of.optout && of.caching, "caching-no"),
        (of.noloop, "noloop"),
        (of.broken, "broken_redirect"),
    ];
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.iter().filter(|(set, _)| *set).count());
    flags.iter().filter(|(set, _)| *set).for_each(|(_, flag)| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(cx.client.redirected_to());
    reply.bulk(b"prefixes");
    reply.array(of.prefixes.len());
    of.prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(Flow::Done)
}
