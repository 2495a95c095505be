//! The hash family. What a hash is, and how its fields expire: `types::hash`.

mod counters;
mod fields;
mod lifetime;
#[cfg(test)]
mod tests;
mod timed;
mod walks;

use std::sync::Arc;

use command::{Categories, Command, Flags, Group, KeyFlags, KeySpec, Spec};
use resp::Reply;
use shard::exec::Exec;
use shard::plan::Plan;
use types::hash::{Field, Name, Rules};
use types::packed::Piece;

use counters::{hincrby, hincrbyfloat};
use fields::{hdel, hexists, hget, hlen, hmget, hmset, hset, hsetnx, hstrlen};
use lifetime::{hexpire, hexpireat, hexpiretime, hpersist, hpexpire, hpexpireat, hpexpiretime, hpttl, httl};
use timed::{hgetdel, hgetex, hsetex};
use walks::{hgetall, hkeys, hrandfield, hscan, hvals};

/// Every command of the family.
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: "HDEL",
            summary: "Removes fields from a hash, which goes with its last one, and gives how many there were.",
            complexity: "O(n) for n fields that are named",
            since: "2.0.0",
            group: Group::Hash,
            arity: -3,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::DELETE))],
            tips: &[],
            syntax: "key:key#0 field:string*",
        },
        run: Plan::Keys(hdel),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HEXISTS",
            summary: "Tells whether a hash has a field.",
            complexity: "O(1)",
            since: "2.0.0",
            group: Group::Hash,
            arity: 3,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO)],
            tips: &[],
            syntax: "key:key#0 field:string",
        },
        run: Plan::Keys(hexists),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HEXPIRE",
            summary: "Makes fields expire after a number of seconds.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -6,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 seconds:integer [condition(NX=nx!|XX=xx!|GT=gt!|LT=lt!)] FIELDS=fields{numfields:integer field:string*}",
        },
        run: Plan::Keys(hexpire),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HEXPIREAT",
            summary: "Makes fields expire at a Unix time in seconds.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -6,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 unix-time-seconds:integer [condition(NX=nx!|XX=xx!|GT=gt!|LT=lt!)@9.0.0] FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hexpireat),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HEXPIRETIME",
            summary: "Gives the Unix times in seconds at which fields expire.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -5,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hexpiretime),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HGET",
            summary: "Gives the value of a field.",
            complexity: "O(1)",
            since: "2.0.0",
            group: Group::Hash,
            arity: 3,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 field:string",
        },
        run: Plan::Keys(hget),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HGETALL",
            summary: "Gives all fields of a hash with their values.",
            complexity: "O(n) for n fields of the hash",
            since: "2.0.0",
            group: Group::Hash,
            arity: 2,
            flags: Flags::READONLY,
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &["nondeterministic_output_order"],
            syntax: "key:key#0",
        },
        run: Plan::Keys(hgetall),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HGETDEL",
            summary: "Gives the values of fields and removes them.",
            complexity: "O(n) for n fields that are named",
            since: "9.1.0",
            group: Group::Hash,
            arity: -5,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
            tips: &[],
            syntax: "key:key#0 FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hgetdel),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HGETEX",
            summary: "Gives the values of fields and changes when they expire.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -5,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 [expiration(EX=seconds:integer|PX=milliseconds:integer|EXAT=unix-time-seconds:unix-time|PXAT=unix-time-milliseconds:unix-time|PERSIST=persist!)] FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hgetex),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HINCRBY",
            summary: "Adds to the integer in a field, which begins at 0.",
            complexity: "O(1)",
            since: "2.0.0",
            group: Group::Hash,
            arity: 4,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 field:string increment:integer",
        },
        run: Plan::Keys(hincrby),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HINCRBYFLOAT",
            summary: "Adds to the number in a field, which begins at 0.",
            complexity: "O(1)",
            since: "2.6.0",
            group: Group::Hash,
            arity: 4,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 field:string increment:double",
        },
        run: Plan::Keys(hincrbyfloat),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HKEYS",
            summary: "Gives the names of all fields of a hash.",
            complexity: "O(n) for n fields of the hash",
            since: "2.0.0",
            group: Group::Hash,
            arity: 2,
            flags: Flags::READONLY,
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &["nondeterministic_output_order"],
            syntax: "key:key#0",
        },
        run: Plan::Keys(hkeys),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HLEN",
            summary: "Gives how many fields a hash has.",
            complexity: "O(1), O(n) for a hash of up to 512 fields",
            since: "2.0.0",
            group: Group::Hash,
            arity: 2,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO)],
            tips: &[],
            syntax: "key:key#0",
        },
        run: Plan::Keys(hlen),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HMGET",
            summary: "Gives the values of several fields.",
            complexity: "O(n) for n fields that are named",
            since: "2.0.0",
            group: Group::Hash,
            arity: -3,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 field:string*",
        },
        run: Plan::Keys(hmget),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HMSET",
            summary: "Sets fields of a hash, as HSET does, and replies OK.",
            complexity: "O(n) for n fields that are named",
            since: "2.0.0",
            group: Group::Hash,
            arity: -4,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 data{field:string value:string}*",
        },
        run: Plan::Keys(hmset),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HPERSIST",
            summary: "Makes fields stay that would expire.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -5,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hpersist),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HPEXPIRE",
            summary: "Makes fields expire after a number of milliseconds.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -6,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 milliseconds:integer [condition(NX=nx!|XX=xx!|GT=gt!|LT=lt!)@9.0.0] FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hpexpire),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HPEXPIREAT",
            summary: "Makes fields expire at a Unix time in milliseconds.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -6,
            flags: Flags::WRITE.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 unix-time-milliseconds:integer [condition(NX=nx!|XX=xx!|GT=gt!|LT=lt!)@9.0.0] FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hpexpireat),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HPEXPIRETIME",
            summary: "Gives the Unix times in milliseconds at which fields expire.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -5,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hpexpiretime),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HPTTL",
            summary: "Gives the milliseconds until fields expire.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -5,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(hpttl),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HRANDFIELD",
            summary: "Gives fields of a hash by chance.",
            complexity: "O(n) for n fields that are wanted, or for all fields of a hash if that is more than a fourth of them",
            since: "6.2.0",
            group: Group::Hash,
            arity: -2,
            flags: Flags::READONLY,
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &["nondeterministic_output"],
            syntax: "key:key#0 [options{count:integer [WITHVALUES=withvalues!]}]",
        },
        run: Plan::Keys(hrandfield),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HSCAN",
            summary: "Goes through the fields of a hash, some with each call.",
            complexity: "O(1) per call, O(n) for n fields in all",
            since: "2.8.0",
            group: Group::Hash,
            arity: -3,
            flags: Flags::READONLY,
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &["nondeterministic_output"],
            syntax: "key:key#0 cursor:integer [MATCH=pattern:pattern] [COUNT=count:integer] [NOVALUES=novalues!]",
        },
        run: Plan::Keys(hscan),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HSET",
            summary: "Sets fields of a hash and gives how many are new.",
            complexity: "O(n) for n fields that are named",
            since: "2.0.0",
            group: Group::Hash,
            arity: -4,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 data{field:string value:string}*",
        },
        run: Plan::Keys(hset),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HSETEX",
            summary: "Sets fields of a hash and when they expire, under conditions.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -6,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::INSERT))],
            tips: &[],
            syntax: "key:key#0 [key-condition(NX=nx!|XX=xx!)] [fields-condition(FNX=fnx!|FXX=fxx!)] [expiration(EX=seconds:integer|PX=milliseconds:integer|EXAT=unix-time-seconds:unix-time|PXAT=unix-time-milliseconds:unix-time|KEEPTTL=keepttl!)] FIELDS=fields{numfields:integer#0 data{field:string value:string}*}",
        },
        run: Plan::Keys(hsetex),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HSETNX",
            summary: "Sets a field of a hash if it has none of that name.",
            complexity: "O(1)",
            since: "2.0.0",
            group: Group::Hash,
            arity: 4,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::INSERT))],
            tips: &[],
            syntax: "key:key#0 field:string value:string",
        },
        run: Plan::Keys(hsetnx),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HSTRLEN",
            summary: "Gives the length of the value of a field.",
            complexity: "O(1)",
            since: "3.2.0",
            group: Group::Hash,
            arity: 3,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO)],
            tips: &[],
            syntax: "key:key#0 field:string",
        },
        run: Plan::Keys(hstrlen),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HTTL",
            summary: "Gives the seconds until fields expire.",
            complexity: "O(n) for n fields that are named",
            since: "9.0.0",
            group: Group::Hash,
            arity: -5,
            flags: Flags::READONLY.with(Flags::FAST),
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 FIELDS=fields{numfields:integer#0 field:string*}",
        },
        run: Plan::Keys(httl),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HVALS",
            summary: "Gives the values of all fields of a hash.",
            complexity: "O(n) for n fields of the hash",
            since: "2.0.0",
            group: Group::Hash,
            arity: 2,
            flags: Flags::READONLY,
            explicit: Categories::HASH,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &["nondeterministic_output_order"],
            syntax: "key:key#0",
        },
        run: Plan::Keys(hvals),
        subcommands: &[],
    },
];

/// What changes of hashes go by in this command.
#[inline]
fn rules<'a>(cx: &Exec<'a>) -> Rules<'a> {
    let settings = cx.settings;
    Rules { limits: &settings.limits, now_ms: cx.now_ms }
}

/// Replies with the name of a field.
#[inline]
fn reply_name(reply: &mut Reply, name: Name<'_>) {
    name.with(|name| reply.bulk(name));
}

/// Replies with the value of a field; a large one is not copied.
#[inline]
fn reply_value(reply: &mut Reply, field: &Field<'_>) {
    match field.big() {
        Some(big) => reply.bulk_shared(Arc::new(big)),
        None => match field.value {
            Piece::Bytes(bytes) => reply.bulk(bytes),
            Piece::Int(integer) => reply.bulk_int(integer),
        },
    }
}

/// The same, or null if there is no such field.
#[inline]
fn reply_value_or_null(reply: &mut Reply, field: Option<&Field<'_>>) {
    match field {
        Some(field) => reply_value(reply, field),
        None => reply.null(),
    }
}
