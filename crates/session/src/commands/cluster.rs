//! CLUSTER: what a server without cluster mode answers, and the slot of a key, which needs no cluster.

use command::{Categories, Command, CommandError, Flags, Group, Spec};
use resp::{Args, Reply};

use super::QUIET;
use crate::worker::{Cx, Flow, SessionRun};

const fn row(
    name: &'static str,
    summary: &'static str,
    since: &'static str,
    arity: i16,
    flags: Flags,
    run: SessionRun,
) -> Command<SessionRun> {
    let row = super::row(name, summary, since, arity, flags, run);
    Command::new(Spec { group: Group::Cluster, ..row.spec }, run)
}

const VARYING: &[&str] = &["nondeterministic_output"];

pub const ROWS: &[Command<SessionRun>] = &[
    row(
        "ASKING",
        "Announces a command for a slot that is on its way here.",
        "3.0.0",
        1,
        Flags::FAST,
        disabled,
    )
    .explicit(Categories::CONNECTION),
    row("CLUSTER", "Commands about the cluster.", "3.0.0", -2, Flags::NONE, disabled).with(SUBCOMMANDS),
    row("READONLY", "Lets the connection read from a replica.", "3.0.0", 1, QUIET.with(Flags::FAST), ok)
        .explicit(Categories::CONNECTION),
    row("READWRITE", "Ends READONLY.", "3.0.0", 1, QUIET.with(Flags::FAST), ok)
        .explicit(Categories::CONNECTION),
];

const SUBCOMMANDS: &[Command<SessionRun>] = &[
    row("COUNTKEYSINSLOT", "Counts the keys of a slot.", "3.0.0", 3, Flags::STALE, disabled)
        .syntax("slot:integer"),
    row("GETKEYSINSLOT", "Names keys of a slot.", "3.0.0", 4, Flags::STALE, disabled)
        .syntax("slot:integer count:integer")
        .tips(VARYING),
    row("HELP", "Shows the subcommands.", "5.0.0", 2, QUIET, disabled),
    row("INFO", "Describes the state of the cluster.", "3.0.0", 2, QUIET, disabled).tips(VARYING),
    row("KEYSLOT", "Gives the slot of a key.", "3.0.0", 3, Flags::STALE, keyslot).syntax("key:string"),
    row("LINKS", "Lists the links between nodes.", "7.0.0", 2, Flags::STALE, disabled).tips(VARYING),
    row("MYID", "Gives the id of this node.", "3.0.0", 2, QUIET, disabled),
    row("MYSHARDID", "Gives the id of this node's shard.", "7.2.0", 2, QUIET, disabled).tips(VARYING),
    row("NODES", "Describes the nodes.", "3.0.0", 2, QUIET, disabled).tips(VARYING),
    row("SHARDS", "Tells which nodes serve which slots.", "7.0.0", 2, QUIET, disabled).tips(VARYING),
    row("SLOTS", "Tells which nodes serve which slots.", "3.0.0", 2, QUIET, disabled).tips(VARYING),
];

fn disabled(_cx: &mut Cx<'_>, _args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    Err(CommandError::fixed("ERR This instance has cluster support disabled"))
}

fn ok(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.ok();
    Ok(Flow::Done)
}

fn keyslot(_cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.int(i64::from(stdx::slot::slot_of(&args[2])));
    Ok(Flow::Done)
}
