//! CONFIG: settings shown, changed on every thread, written back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use command::{Categories, Command, CommandError, Flags, Group, Spec};
use resp::{Args, Reply};

use super::help;
use crate::broadcast::answers_as;
use crate::config::{Config, ListenSettings, SetError};
use crate::rights::{self, Changes};
use crate::worker::{Cx, Flow, SessionRun, Worker};
use crate::{limits, logger};

const CONFIG: Spec = Spec {
    name: "CONFIG",
    summary: "Commands about settings.",
    complexity: "Depends on the subcommand",
    since: "2.0.0",
    group: Group::Server,
    arity: -2,
    flags: Flags::NONE,
    explicit: Categories::NONE,
    keys: &[],
    tips: &[],
    syntax: "",
};

const ADMIN: Flags = Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE);
const EVERYWHERE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

pub const ROWS: &[Command<SessionRun>] =
    &[Command { spec: CONFIG, run: show_help, subcommands: SUBCOMMANDS }];

const SUBCOMMANDS: &[Command<SessionRun>] = &[
    Command {
        spec: Spec {
            name: "GET",
            summary: "Shows the values of settings.",
            complexity: "O(N) where N is the number of patterns",
            arity: -3,
            flags: ADMIN,
            syntax: "parameter:string*",
            ..CONFIG
        },
        run: get,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "HELP",
            summary: "Shows the subcommands.",
            complexity: "O(1)",
            since: "5.0.0",
            arity: 2,
            flags: Flags::LOADING.with(Flags::STALE),
            ..CONFIG
        },
        run: show_help,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "RESETSTAT",
            summary: "Sets the statistics to zero.",
            complexity: "O(1)",
            arity: 2,
            flags: ADMIN,
            tips: EVERYWHERE,
            ..CONFIG
        },
        run: resetstat,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "REWRITE",
            summary: "Writes the settings into the configuration file.",
            complexity: "O(1)",
            since: "2.8.0",
            arity: 2,
            flags: ADMIN,
            tips: EVERYWHERE,
            ..CONFIG
        },
        run: rewrite,
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "SET",
            summary: "Changes settings: all of those told, or none.",
            complexity: "O(N) where N is the number of settings told",
            arity: -4,
            flags: ADMIN,
            tips: EVERYWHERE,
            syntax: "data{parameter:string value:string}*",
            ..CONFIG
        },
        run: set,
        subcommands: &[],
    },
];

const HELP: &[&str] = &[
    "GET <pattern> [...] -- the values of settings with such names.",
    "RESETSTAT -- set the statistics of INFO to zero.",
    "REWRITE -- write the settings into the configuration file.",
    "SET <name> <value> [...] -- change settings.",
];

fn show_help(_cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    help(reply, "CONFIG", HELP)
}

fn get(cx: &mut Cx<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let patterns: Vec<&[u8]> = args.iter().skip(2).collect();
    let found = cx.worker.config.get(&patterns);
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value);
    }
    Ok(Flow::Done)
}

fn rewrite(cx: &mut Cx<'_>, _args: Args<'_>, reply: &mut Reply) -> Result<Flow, CommandError> {
    let users = rights::lines_to_write(&cx.worker.config, &rights::lock(&cx.worker.shared.users));
    match cx.worker.config.rewrite(&users) {
        Ok(()) => log::info!("CONFIG REWRITE executed with success."),
        Err(error) => {
            log::warn!("CONFIG REWRITE failed: {error}");
            return Err(CommandError::new(error.to_string()));
        }
    }
    reply.ok();
    Ok(Flow::Done)
}

fn resetstat(cx: &mut Cx<'_>, _args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    let ask = Arc::new(|worker: &mut Worker| {
        worker.reset_stats();
        Box::new(()) as crate::broadcast::Answer
    });
    Ok(cx.broadcast(
        ask,
        Box::new(|_, _, reply| {
            reply.ok();
            Flow::Done
        }),
    ))
}

/// The words of a CONFIG SET, kept while other threads are asked.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn set(cx: &mut Cx<'_>, args: Args<'_>, _reply: &mut Reply) -> Result<Flow, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    let protected_too = cx.worker.config.enable_protected_configs.allows(cx.client.addresses.loopback);
    let words: Vec<&[u8]> = args.iter().skip(2).collect();
    let pairs: Pairs = words.chunks_exact(2).map(|pair| (pair[0].to_vec(), pair[1].to_vec())).collect();
    let shared = cx.worker.shared;
    let current = lock(&shared.config);
    let new = changed(&current, &pairs, protected_too).map_err(|error| error.reply())?;
    if new.listen_settings() == current.listen_settings() {
        return put_into_effect(cx, current, new, &pairs);
    }
    drop(current);
    Ok(listen_first(cx, new.listen_settings(), pairs, protected_too))
}

fn changed(current: &Config, pairs: &Pairs, protected_too: bool) -> Result<Config, SetError> {
    let pairs: Vec<(&[u8], &[u8])> =
        pairs.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect();
    current.set(&pairs, protected_too)
}

/// The settings of the process change, then those of every thread. A thread that is asked takes the settings that are current by then, so
/// that two clients who change settings at once leave all threads with the same ones.
fn put_into_effect(
    cx: &mut Cx<'_>,
    mut current: MutexGuard<'_, Arc<Config>>,
    new: Config,
    pairs: &Pairs,
) -> Result<Flow, CommandError> {
    change_process(&current, &new).map_err(|(name, reason)| {
        // The client is told the name that it used, which may be an alias.
        let told = pairs.iter().find(|(told, _)| told.eq_ignore_ascii_case(name.as_bytes()));
        SetError::Refused {
            name: told.map_or_else(|| name.as_bytes().to_vec(), |pair| pair.0.clone()),
            reason: reason.into(),
        }
        .reply()
    })?;
    logger::configure(&new);
    if new.maxmemory != 0 && new.maxmemory < current.maxmemory && cx.worker.used_memory() > new.maxmemory {
        log::warn!(
            "The new maxmemory value set via CONFIG SET ({}) is smaller than the current memory usage ({}): keys are evicted, or writes \
             refused, as maxmemory-policy says.",
            new.maxmemory,
            cx.worker.used_memory()
        );
    }
    let changes = if new.requirepass == current.requirepass {
        Changes::new()
    } else {
        rights::require_password(cx.worker.shared, &new.requirepass)
    };
    *current = Arc::new(new);
    drop(current);
    let me = cx.client.id;
    let ask = Arc::new(move |worker: &mut Worker| {
        let config = Arc::clone(&lock(&worker.shared.config));
        worker.configure(config);
        worker.take_users(&changes, me);
        Box::new(()) as crate::broadcast::Answer
    });
    Ok(cx.broadcast(
        ask,
        Box::new(|_, _, reply| {
            reply.ok();
            Flow::Done
        }),
    ))
}

/// What belongs to the process as a whole. The name and the reason of what fails.
fn change_process(old: &Config, new: &Config) -> Result<(), (&'static str, String)> {
    if new.maxclients > old.maxclients
        && let Err((clients, _)) = limits::raise_open_files(new.maxclients)
        && clients < new.maxclients
    {
        let reason = format!(
            "The operating system is not able to handle the specified number of clients, try with {clients}"
        );
        return Err(("maxclients", reason));
    }
    if new.dir != old.dir {
        std::env::set_current_dir(&new.dir).map_err(|error| ("dir", crate::config::os_text(&error)))?;
    }
    if new.oom_score_adj != old.oom_score_adj {
        limits::set_oom_score(new.oom_score_adj).map_err(|error| {
            log::warn!("oom-score-adj could not be set: {error}");
            let reason = "Failed to apply new oom_score_adj configuration, check server logs.";
            ("oom-score-adj", reason.to_owned())
        })?;
    }
    Ok(())
}

/// `bind` or `port` change: the thread that listens does so at the new addresses before anything else is changed.
fn listen_first(cx: &mut Cx<'_>, wanted: ListenSettings, pairs: Pairs, protected_too: bool) -> Flow {
    let culprit = if wanted.port == cx.worker.config.port { "bind" } else { "port" };
    let ask = Arc::new(move |worker: &mut Worker| {
        let result = if worker.id() == 0 { worker.listen_at(&wanted) } else { Ok(()) };
        Box::new(result) as crate::broadcast::Answer
    });
    cx.broadcast(
        ask,
        Box::new(move |cx, answers, reply| {
            let failed = answers_as::<Result<(), String>>(answers).find_map(Result::err);
            let result = match failed {
                Some(error) => {
                    log::warn!("CONFIG SET {culprit}: {error}");
                    let reason = match culprit {
                        "bind" => "Failed to bind to specified addresses.",
                        _ => "Unable to listen on this port. Check server logs.",
                    };
                    Err(SetError::Refused { name: culprit.into(), reason: reason.into() }.reply())
                }
                None => after_listening(cx, &pairs, protected_too),
            };
            result.unwrap_or_else(|error| {
                reply.error(error.text());
                Flow::Done
            })
        }),
    )
}

fn after_listening(cx: &mut Cx<'_>, pairs: &Pairs, protected_too: bool) -> Result<Flow, CommandError> {
    let shared = cx.worker.shared;
    let current = lock(&shared.config);
    let new = changed(&current, pairs, protected_too).map_err(|error| error.reply())?;
    put_into_effect(cx, current, new, pairs)
}

fn lock(config: &Mutex<Arc<Config>>) -> MutexGuard<'_, Arc<Config>> {
    config.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    /// Forgets what has happened so far.
    fn reset_stats(&mut self) {
        self.engine.counters = Default::default();
        self.stats().reset();
        if self.id() == 0 {
            self.shared.rates().reset();
        }
    }
}
