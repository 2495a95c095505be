//! COMMAND: what the rows say about every command.

use command::syntax::{self, Argument};
use command::{
    Begin, Categories, Command, CommandError, Find, Flags, Group, KeyFlags, KeySpec, Spec, legacy_range,
};
use resp::{Args, Reply};
use router::table::Entry;

use super::help;
use crate::worker::{Cx, Flow, SessionRun, Worker};

const QUIET: Flags = Flags::LOADING.with(Flags::STALE);

const COMMAND: Spec = Spec {
    name: "COMMAND",
    summary: "Describes every command.",
    complexity: "O(N) where N is the number of commands",
    since: "2.8.13",
    group: Group::Server,
    arity: -1,
    flags: QUIET,
    explicit: Categories::CONNECTION,
    keys: &[],
    tips: &["nondeterministic_output_order"],
    syntax: "",
};

const fn row(
    name: &'static str,
    summary: &'static str,
    since: &'static str,
    arity: i16,
    syntax: &'static str,
    run: SessionRun,
) -> Command<SessionRun> {
    let spec = Spec { name, summary, complexity: "O(N)", since, arity, syntax, tips: &[], ..COMMAND };
    Command { spec, run, subcommands: &[] }
}

const fn unordered(row: Command<SessionRun>) -> Command<SessionRun> {
    Command { spec: Spec { tips: COMMAND.tips, ..row.spec }, ..row }
}

pub const ROWS: &[Command<SessionRun>] = &[Command { spec: COMMAND, run: all, subcommands: SUBCOMMANDS }];

const SUBCOMMANDS: &[Command<SessionRun>] = &[
    row("COUNT", "Counts the commands.", "2.8.13", 2, "", count),
    unordered(row("DOCS", "Documents commands.", "7.0.0", -2, "[command-name:string*]", docs)),
    row("GETKEYS", "Finds the keys of a command.", "2.8.13", -3, "command:string [arg:string*]", getkeys),
    row(
        "GETKEYSANDFLAGS",
        "Finds the keys of a command and what it does with them.",
        "7.0.0",
        -3,
        "command:string [arg:string*]",
        getkeysandflags,
    ),
    row("HELP", "Shows the subcommands.", "5.0.0", 2, "", show_help),
    unordered(row("INFO", "Describes commands.", "2.8.13", -2, "[command-name:string*]", info)),
    unordered(row(
        "LIST",
        "Names the commands.",
        "7.0.0",
        -2,
        "[FILTERBY=filterby(MODULE=module-name:string|ACLCAT=category:string|PATTERN=pattern:pattern)]",
        list,
    )),
];

const HELP: &[&str] = &[
    "COMMAND -- describe every command.",
    "COUNT -- count the commands.",
    "DOCS [<name> ...] -- document all commands or these.",
    "GETKEYS <command> [<arg> ...] -- the keys of this command.",
    "GETKEYSANDFLAGS <command> [<arg> ...] -- the keys of this command and what it does with each.",
    "INFO [<name> ...] -- describe all commands or these.",
    "LIST [FILTERBY MODULE <name> | ACLCAT <category> | PATTERN <pattern>] -- name the commands.",
];

fn show_help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    help(reply, "COMMAND", HELP)
}

fn all(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let entries = cx.worker.shared.table.entries();
    reply.array(entries.len());
    entries.iter().for_each(|entry| describe(entry, reply));
    Ok(Flow::Done)
}

fn count(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.int(cx.worker.shared.table.entries().len() as i64);
    Ok(Flow::Done)
}

fn info(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if args.len() == 2 {
        return all(cx, args, reply);
    }
    reply.array(args.len() - 2);
    for name in args.iter().skip(2) {
        match named(cx.worker, name) {
            Some(entry) => describe(entry, reply),
            None => reply.null(),
        }
    }
    Ok(Flow::Done)
}

/// The command with this full name, such as `get` or `config|get`.
pub(super) fn named<'a>(worker: &'a Worker, name: &[u8]) -> Option<&'a Entry<SessionRun>> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let entry = worker.shared.table.find(parts.next()?)?;
    match parts.next() {
        None => Some(entry),
        Some(word) => {
            entry.subcommands.iter().find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(word))
        }
    }
}

/// The ten elements of COMMAND INFO.
fn describe(entry: &Entry<SessionRun>, reply: &mut Reply) {
    let spec = entry.spec;
    reply.array(10);
    reply.bulk(entry.full_name.as_bytes());
    reply.int(i64::from(spec.arity));
    simple_set(reply, spec.flags.names());
    let (first, last, step) = legacy_range(spec.keys);
    [first, last, step].into_iter().for_each(|number| reply.int(i64::from(number)));
    let categories: Vec<String> = spec.categories().names().map(|name| format!("@{name}")).collect();
    simple_set(reply, categories.iter().map(String::as_str));
    reply.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(spec.keys.len());
    spec.keys.iter().for_each(|key| describe_keys(key, reply));
    reply.array(entry.subcommands.len());
    entry.subcommands.iter().for_each(|sub| describe(sub, reply));
}

fn simple_set<'a>(reply: &mut Reply, names: impl Iterator<Item = &'a str>) {
    let names: Vec<&str> = names.collect();
    reply.set(names.len());
    names.iter().for_each(|name| reply.simple(name));
}

fn pair_int(reply: &mut Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.int(value);
}

fn pair(reply: &mut Reply, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

fn describe_keys(key: &KeySpec, reply: &mut Reply) {
    reply.map(3 + usize::from(!key.notes.is_empty()));
    if !key.notes.is_empty() {
        pair(reply, "notes", key.notes);
    }
    reply.bulk(b"flags");
    simple_set(reply, key.flags.names());
    reply.bulk(b"begin_search");
    match key.begin {
        Begin::Index(at) => {
            head(reply, "index", 1);
            pair_int(reply, "index", i64::from(at));
        }
        Begin::Keyword { word, start } => {
            head(reply, "keyword", 2);
            pair(reply, "keyword", word);
            pair_int(reply, "startfrom", i64::from(start));
        }
        Begin::Unknown => head(reply, "unknown", 0),
    }
    reply.bulk(b"find_keys");
    match key.find {
        Find::Range { last, step, limit } => {
            head(reply, "range", 3);
            pair_int(reply, "lastkey", i64::from(last));
            pair_int(reply, "keystep", i64::from(step));
            pair_int(reply, "limit", i64::from(limit));
        }
        Find::Count { count_at, first, step } => {
            head(reply, "keynum", 3);
            pair_int(reply, "keynumidx", i64::from(count_at));
            pair_int(reply, "firstkey", i64::from(first));
            pair_int(reply, "keystep", i64::from(step));
        }
        Find::Unknown | Find::SortStore => head(reply, "unknown", 0),
    }
}

/// The beginning of a map of a type and what belongs to it.
fn head(reply: &mut Reply, kind: &str, pairs: usize) {
    reply.map(2);
    pair(reply, "type", kind);
    reply.bulk(b"spec");
    reply.map(pairs);
}

fn docs(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if args.len() == 2 {
        let entries = cx.worker.shared.table.entries();
        reply.map(entries.len());
        entries.iter().for_each(|entry| document(entry, reply));
        return Ok(Flow::Done);
    }
    let found: Vec<_> = args.iter().skip(2).filter_map(|name| named(cx.worker, name)).collect();
    reply.map(found.len());
    found.iter().for_each(|entry| document(entry, reply));
    Ok(Flow::Done)
}

fn document(entry: &Entry<SessionRun>, reply: &mut Reply) {
    let spec = entry.spec;
    let arguments = syntax::parse(spec.syntax);
    reply.bulk(entry.full_name.as_bytes());
    reply.map(4 + usize::from(!arguments.is_empty()) + usize::from(!entry.subcommands.is_empty()));
    pair(reply, "summary", spec.summary);
    pair(reply, "since", spec.since);
    pair(reply, "group", spec.group.name());
    pair(reply, "complexity", spec.complexity);
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        document_arguments(&arguments, reply);
    }
    if !entry.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(entry.subcommands.len());
        entry.subcommands.iter().for_each(|sub| document(sub, reply));
    }
}

fn document_arguments(arguments: &[Argument<'_>], reply: &mut Reply) {
    reply.array(arguments.len());
    for argument in arguments {
        let inner = argument.inner();
        let flags = [
            (argument.optional, "optional"),
            (argument.multiple, "multiple"),
            (argument.multiple_token, "multiple_token"),
        ];
        let flags: Vec<&str> = flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect();
        let parts = [
            inner.is_empty(),
            argument.key_spec.is_some(),
            argument.token.is_some(),
            argument.since.is_some(),
            !flags.is_empty(),
            !inner.is_empty(),
        ];
        reply.map(2 + parts.into_iter().map(usize::from).sum::<usize>());
        pair(reply, "name", argument.name);
        pair(reply, "type", argument.type_name());
        if inner.is_empty() {
            pair(reply, "display_text", argument.name);
        }
        if let Some(number) = argument.key_spec {
            pair_int(reply, "key_spec_index", number as i64);
        }
        if let Some(token) = argument.token {
            pair(reply, "token", token);
        }
        if let Some(since) = argument.since {
            pair(reply, "since", since);
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            simple_set(reply, flags.into_iter());
        }
        if !inner.is_empty() {
            reply.bulk(b"arguments");
            document_arguments(inner, reply);
        }
    }
}

fn list(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let entries = cx.worker.shared.table.entries();
    let wanted: Wanted = match args.len() {
        2 => Box::new(|_| true),
        5 if args[2].eq_ignore_ascii_case(b"filterby") => filter(&args[3], &args[4])?,
        _ => return Err(CommandError::SYNTAX),
    };
    let deferred = reply.defer_array();
    let mut count = 0;
    for entry in entries.iter().flat_map(|entry| std::iter::once(entry).chain(&entry.subcommands)) {
        // Without a filter only commands are named, with one their subcommands as well.
        if wanted(entry) && (args.len() > 2 || !entry.full_name.contains('|')) {
            reply.bulk(entry.full_name.as_bytes());
            count += 1;
        }
    }
    reply.finish_array(deferred, count);
    Ok(Flow::Done)
}

type Wanted = Box<dyn Fn(&Entry<SessionRun>) -> bool>;

fn filter(kind: &[u8], value: &[u8]) -> Result<Wanted, CommandError> {
    match kind.to_ascii_lowercase().as_slice() {
        // There are no modules, so that none has a command.
        b"module" => Ok(Box::new(|_| false)),
        b"aclcat" => {
            let category = std::str::from_utf8(value).ok().and_then(Categories::named);
            Ok(Box::new(move |entry| category.is_some_and(|category| entry.spec.categories().has(category))))
        }
        b"pattern" => {
            let pattern = value.to_vec();
            Ok(Box::new(move |entry| stdx::glob::matches(&pattern, entry.full_name.as_bytes(), true)))
        }
        _ => Err(CommandError::SYNTAX),
    }
}

fn getkeys(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let keys = keys_of(cx, args.from(2))?;
    reply.array(keys.len());
    keys.iter().for_each(|(index, _)| reply.bulk(&args[index + 2]));
    Ok(Flow::Done)
}

fn getkeysandflags(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let keys = keys_of(cx, args.from(2))?;
    reply.array(keys.len());
    for (index, flags) in keys {
        reply.array(2);
        reply.bulk(&args[index + 2]);
        simple_set(reply, flags.names());
    }
    Ok(Flow::Done)
}

/// Where the keys of this command stand among its words, and what it does with each.
fn keys_of(cx: &Cx<'_>, words: Args<'_>) -> Result<Vec<(usize, KeyFlags)>, CommandError> {
    let table = &cx.worker.shared.table;
    let entry = table.find(&words[0]).ok_or(CommandError::fixed("ERR Invalid command specified"))?;
    let entry = match words.get(1) {
        Some(word) if !entry.subcommands.is_empty() => entry
            .subcommands
            .iter()
            .find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(word))
            .ok_or(CommandError::fixed("ERR Invalid command specified"))?,
        _ => entry,
    };
    if entry.spec.keys.is_empty() {
        return Err(CommandError::fixed("ERR The command has no key arguments"));
    }
    if !entry.spec.accepts(words.len()) {
        return Err(CommandError::fixed("ERR Invalid number of arguments specified for command"));
    }
    let mut keys = Vec::new();
    let invalid = |_| CommandError::fixed("ERR Invalid arguments specified for command");
    command::key_positions(entry.spec.keys, words, |index, flags| {
        // Where the row says what a command may do, its options say what this call does.
        keys.push((index, command::call_flags(entry.spec.name, words, flags)));
    })
    .map_err(invalid)?;
    Ok(keys)
}
