//! ACL: users and their rules, shown and changed.

use std::sync::Arc;

use acl::parse::{Unmatched, has_spaces, merge_selectors};
use acl::selector::Selector;
use acl::{User, Users};
use command::{Categories, Command, CommandError, Flags};
use resp::{Args, Reply};

use super::{ADMIN, QUIET, help, row};
use crate::broadcast::Answer;
use crate::rights::{self, Changes, file};
use crate::worker::{Cx, Flow, SessionRun};

pub const ROWS: &[Command<SessionRun>] =
    &[row("ACL", "Commands about users.", "6.0.0", -2, Flags::NONE, show_help).with(SUBCOMMANDS)];

const SECRET: Flags = ADMIN.with(Flags::SKIP_COMMANDLOG);

const SUBCOMMANDS: &[Command<SessionRun>] = &[
    row(
        "CAT",
        "Lists the categories, or the commands of one.",
        "6.0.0",
        -2,
        Flags::NOSCRIPT.with(QUIET),
        cat,
    )
    .syntax("[category:string]"),
    row("DELUSER", "Deletes users and closes their connections.", "6.0.0", -3, ADMIN, deluser)
        .tips(EVERYWHERE)
        .syntax("username:string*"),
    row("DRYRUN", "Tells whether a user may run a command, without running it.", "7.0.0", -4, ADMIN, dryrun)
        .syntax("username:string command:string [arg:string*]"),
    row(
        "GENPASS",
        "Makes a password that nobody can guess.",
        "6.0.0",
        -2,
        Flags::NOSCRIPT.with(QUIET),
        genpass,
    )
    .syntax("[bits:integer]"),
    row("GETUSER", "Shows the rules of a user.", "6.0.0", 3, ADMIN, getuser).syntax("username:string"),
    row("HELP", "Shows the subcommands.", "6.0.0", 2, QUIET, show_help),
    row("LIST", "Shows every user as a line of an ACL file.", "6.0.0", 2, ADMIN, list),
    row("LOAD", "Reads the users from the ACL file.", "6.0.0", 2, ADMIN, load),
    row("LOG", "Shows what was denied lately.", "6.0.0", -2, ADMIN, log)
        .syntax("[operation(count:integer|RESET=reset!)]"),
    row("SAVE", "Writes the users into the ACL file.", "6.0.0", 2, ADMIN, save).tips(EVERYWHERE),
    row("SETUSER", "Creates a user or changes its rules.", "6.0.0", -3, SECRET, setuser)
        .tips(EVERYWHERE)
        .syntax("username:string [rule:string*]"),
    row("USERS", "Lists the names of the users.", "6.0.0", 2, ADMIN, users),
    row("WHOAMI", "Names the connection's user.", "6.0.0", 2, Flags::NOSCRIPT.with(QUIET), whoami),
];

const EVERYWHERE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const HELP: &[&str] = &[
    "CAT [<category>] -- the categories, or the commands of one.",
    "DELUSER <username> [...] -- delete users and close their connections.",
    "DRYRUN <username> <command> [<arg> ...] -- whether the user may run the command.",
    "GENPASS [<bits>] -- a password of 256 random bits, or of so many.",
    "GETUSER <username> -- the rules of a user.",
    "LIST -- every user as a line of an ACL file.",
    "LOAD -- read the users from the ACL file.",
    "LOG [<count> | RESET] -- what was denied lately, or forget it.",
    "SAVE -- write the users into the ACL file.",
    "SETUSER <username> <rule> [...] -- create a user or change its rules.",
    "USERS -- the names of the users.",
    "WHOAMI -- the user of this connection.",
];

const NO_FILE: CommandError = CommandError::fixed(
    "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG \
     REWRITE (assuming you have a configuration file set) in order to store users in the configuration.",
);

fn show_help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    help(reply, "ACL", HELP)
}

fn whoami(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    reply.bulk(&cx.client.user.name);
    Ok(Flow::Done)
}

fn too_many(args: Args<'_>) -> CommandError {
    CommandError::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try ACL HELP.",
        String::from_utf8_lossy(&args[1])
    ))
}

/// `ACL CAT [category]`
fn cat(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    match args.get(2) {
        _ if args.len() > 3 => return Err(too_many(args)),
        None => {
            let names: Vec<&str> = Categories::every().names().collect();
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        Some(word) => {
            let category = std::str::from_utf8(word).ok().and_then(Categories::named).ok_or_else(|| {
                CommandError::new(format!("ERR Unknown category '{}'", String::from_utf8_lossy(word)))
            })?;
            let names: Vec<&str> = cx.worker.shared.catalog.named_in(category).collect();
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
    }
    Ok(Flow::Done)
}

/// `ACL USERS`
fn users(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let users = rights::lock(&cx.worker.shared.users);
    reply.array(users.iter().len());
    users.iter().for_each(|user| reply.bulk(&user.name));
    Ok(Flow::Done)
}

/// `ACL LIST`
fn list(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let users = rights::lock(&cx.worker.shared.users);
    reply.array(users.lines().len());
    users.lines().for_each(|line| reply.bulk(&line));
    Ok(Flow::Done)
}

/// `ACL GETUSER name`
fn getuser(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let Some(user) = rights::lock(&cx.worker.shared.users).get(&args[2]).cloned() else {
        reply.null();
        return Ok(Flow::Done);
    };
    reply.map(7);
    reply.bulk(b"flags");
    let flags: Vec<&str> = user.flags().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().for_each(|hash| reply.bulk(hash.as_bytes()));
    let (root, others) = user.selectors().split_first().expect("a user has a root selector");
    show_selector(root, reply);
    reply.bulk(b"selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(4);
        show_selector(selector, reply);
    }
    Ok(Flow::Done)
}

fn show_selector(selector: &Selector, reply: &mut Reply) {
    reply.bulk(b"commands");
    reply.bulk(selector.describe_commands().as_bytes());
    reply.bulk(b"keys");
    reply.bulk(&selector.describe_keys());
    reply.bulk(b"channels");
    reply.bulk(&selector.describe_channels());
    reply.bulk(b"databases");
    reply.bulk(selector.describe_databases().as_bytes());
}

/// `ACL SETUSER name [rule ...]`
fn setuser(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let name = &args[2];
    if has_spaces(name) {
        return Err(CommandError::fixed("ERR Usernames can't contain spaces or null characters"));
    }
    let words: Vec<&[u8]> = args.iter().skip(3).collect();
    let rules = merge_selectors(&words).map_err(|Unmatched(at)| {
        let word = String::from_utf8_lossy(words[at]);
        CommandError::new(format!("ERR Unmatched parenthesis in acl selector starting at '{word}'."))
    })?;
    let shared = cx.worker.shared;
    let defaults = rights::defaults(&cx.worker.config);
    let mut users = rights::lock(&shared.users);
    let before = match users.get(name) {
        Some(user) => Arc::clone(user),
        None => Arc::new(User::new(&shared.catalog, name, defaults)),
    };
    let changed = before.changed(&shared.catalog, defaults, &rules).map_err(|(at, error)| {
        let rule = String::from_utf8_lossy(&rules[at]);
        CommandError::new(format!("ERR Error in ACL SETUSER modifier '{rule}': {}", error.text()))
    })?;
    let user = Arc::new(changed);
    users.put(Arc::clone(&user));
    drop(users);
    Ok(cx.tell_changes(Changes::from([(user.id, Some(user))]), Reply::ok))
}

/// `ACL DELUSER name [name ...]`
fn deluser(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    if args.iter().skip(2).any(|name| name == acl::users::DEFAULT) {
        return Err(CommandError::fixed("ERR The 'default' user cannot be removed"));
    }
    let mut users = rights::lock(&cx.worker.shared.users);
    let gone: Changes =
        args.iter().skip(2).filter_map(|name| users.remove(name)).map(|user| (user.id, None)).collect();
    drop(users);
    let count = gone.len() as i64;
    Ok(cx.tell_changes(gone, move |reply| reply.int(count)))
}

/// `ACL DRYRUN name command [arg ...]`
fn dryrun(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let shared = cx.worker.shared;
    let shown = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let user = rights::lock(&shared.users).get(&args[2]).cloned();
    let user = user.ok_or_else(|| CommandError::new(format!("ERR User '{}' not found", shown(&args[2]))))?;
    let words = args.from(3);
    let not_found = || CommandError::new(format!("ERR Command '{}' not found", shown(&words[0])));
    let mut entry = shared.table.find(&words[0]).ok_or_else(not_found)?;
    if let Some(word) = words.get(1).filter(|_| !entry.subcommands.is_empty()) {
        let sub = entry.subcommands.iter().find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(word));
        entry = sub.ok_or_else(not_found)?;
    }
    if !entry.spec.accepts(words.len()) {
        return Err(CommandError::arity(&entry.full_name));
    }
    match shared.catalog.check(&user, entry.number, words, cx.client.db) {
        Ok(()) | Err(acl::Denied { reason: acl::Reason::SortOption(_), .. }) => reply.ok(),
        Err(denied) => reply.bulk(&shared.catalog.explain(&user, denied, words)),
    }
    Ok(Flow::Done)
}

/// `ACL GENPASS [bits]`
fn genpass(_cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let bits = match args.get(2) {
        _ if args.len() > 3 => return Err(too_many(args)),
        None => 256,
        Some(word) => stdx::num::parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER)?,
    };
    if !(1..=4096).contains(&bits) {
        return Err(CommandError::fixed(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    crate::serve::random_bytes(&mut bytes).map_err(|error| {
        log::warn!("ACL GENPASS found no random bytes: {error}");
        CommandError::fixed("ERR The system gives no random bytes. Check logs.")
    })?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    reply.bulk(&text.as_bytes()[..digits]);
    Ok(Flow::Done)
}

/// `ACL LOG [count | RESET]`
fn log(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    if args.len() > 3 {
        return Err(too_many(args));
    }
    let mut count = 10;
    let mut log = rights::log::lock(&cx.worker.shared.acl_log);
    if let Some(word) = args.get(2) {
        if word.eq_ignore_ascii_case(b"reset") {
            log.clear();
            reply.ok();
            return Ok(Flow::Done);
        }
        count = stdx::num::parse_i64(word).ok_or(CommandError::NOT_AN_INTEGER)?.max(0) as usize;
    }
    let now_ms = cx.worker.now_ms;
    let entries = log.newest(count);
    reply.array(entries.len());
    for entry in entries {
        reply.map(10);
        reply.bulk(b"count");
        reply.int(entry.count.cast_signed());
        let texts: [(&str, &[u8]); 4] = [
            ("reason", entry.reason.as_bytes()),
            ("context", entry.context.as_bytes()),
            ("object", &entry.object),
            ("username", &entry.username),
        ];
        for (name, text) in texts {
            reply.bulk(name.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(&entry.client);
        let numbers = [
            ("entry-id", entry.id),
            ("timestamp-created", entry.created_ms),
            ("timestamp-last-updated", entry.updated_ms),
        ];
        for (name, number) in numbers {
            reply.bulk(name.as_bytes());
            reply.int(number.cast_signed());
        }
    }
    Ok(Flow::Done)
}

/// `ACL SAVE`
fn save(cx: &mut Cx<'_>, _args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let path = cx.worker.config.aclfile.clone();
    if path.as_os_str().is_empty() {
        return Err(NO_FILE);
    }
    let lines: Vec<Vec<u8>> = rights::lock(&cx.worker.shared.users).lines().collect();
    let job = move || -> Answer {
        Box::new(file::save(&path, &lines).inspect_err(|error| {
            log::warn!("Saving the users into '{}' failed: {error}", path.display());
        }))
    };
    cx.aside(
        job,
        Box::new(|_, answers, reply| {
            match crate::broadcast::answers_as::<std::io::Result<()>>(answers).find_map(Result::err) {
                None => reply.ok(),
                Some(_) => reply.error(
                    "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
                ),
            }
            Flow::Done
        }),
    )
}

/// `ACL LOAD`
fn load(cx: &mut Cx<'_>, _args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let path = cx.worker.config.aclfile.clone();
    if path.as_os_str().is_empty() {
        return Err(NO_FILE);
    }
    let shared = cx.worker.shared;
    let defaults = rights::defaults(&cx.worker.config);
    cx.aside(
        move || -> Answer { Box::new(file::load(&path, &shared.catalog, defaults)) },
        Box::new(|cx, answers, reply| {
            let answer = crate::broadcast::answers_as::<Result<Users, String>>(answers).next();
            match answer.expect("the thread of files answers once") {
                Ok(new) => {
                    let changes = rights::lock(&cx.worker.shared.users).replace(new).into_iter().collect();
                    cx.tell_changes(changes, Reply::ok)
                }
                Err(error) => {
                    reply.error(&format!("ERR {error}"));
                    Flow::Done
                }
            }
        }),
    )
}
