//! What clients may do: their user, what every command looks at of it, and how a change of users reaches every client. Not the rules
//! and the decision, which are the crate `acl`; not the commands, which are in `commands/acl.rs`.
//!
//! A user is immutable. The directory of all users is locked only by commands about users and by AUTH; each client has its user, and each
//! thread the default one. Who changes a user puts the new one into the directory and then asks every thread to give it to its clients,
//! which happens between two commands. A client that may do everything, as the default user may, pays one branch per command.

pub mod file;
pub mod log;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acl::user::Defaults;
use acl::{Catalog, Denied, Reason, User, Users};
use command::CommandError;
use reactor::ConnId;
use resp::Args;
use router::table::{Entry, Table};

use self::log::Incident;
use crate::broadcast::{Answer, answers_as};
use crate::client::Client;
use crate::config::Config;
use crate::connection::{Connection, Waiting};
use crate::pubsub::Kind;
use crate::shared::Shared;
use crate::worker::{Cx, Flow, SessionRun, Worker};

/// Where a command was that is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    Toplevel,
    /// Queued, or executed by EXEC.
    Multi,
    Script,
}

impl Context {
    /// The name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Self::Toplevel => "toplevel",
            Self::Multi => "multi",
            Self::Script => "lua",
        }
    }
}

/// Users that have changed, by id: what they are now, or nothing if they were deleted.
pub type Changes = HashMap<u64, Option<Arc<User>>>;

/// What rules can name, made from the commands of the table.
pub fn catalog(table: &Table<SessionRun>, databases: u16) -> Catalog {
    let rows = table.all().map(|entry| (entry.number, entry.full_name.as_str(), entry.spec));
    Catalog::new(rows, databases)
}

/// What new and reset users have, by the settings.
pub fn defaults(config: &Config) -> Defaults {
    Defaults { all_channels: config.acl_pubsub_all_channels }
}

/// Locks the directory of users; never while another lock but that of the settings is held.
pub fn lock(users: &Mutex<Users>) -> MutexGuard<'_, Users> {
    users.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Brings up to date what every command looks at. `open`: clients need not say who they are.
    pub(crate) fn settle_rights(&mut self, open: bool) {
        self.authenticated = self.logged_in || open;
        self.trusted = self.authenticated && self.user.unrestricted;
    }

    /// A new connection, or one that resets.
    pub(crate) fn become_default(&mut self, default: &Arc<User>) {
        self.user = Arc::clone(default);
        self.logged_in = default.is_open();
        self.settle_rights(default.is_open());
    }

    /// The database that a command sees which is sent now: inside MULTI the one that a queued SELECT has chosen.
    pub(crate) fn db_in_effect(&self) -> u16 {
        self.transaction.as_ref().and_then(|transaction| transaction.db).unwrap_or(self.db)
    }
}

impl Worker {
    /// Checks a command of a client that may not do everything.
    #[cold]
    pub(crate) fn check_rights(
        &self,
        client: &Client,
        entry: &Entry<SessionRun>,
        args: Args<'_>,
    ) -> Result<(), CommandError> {
        let context = if client.transaction.is_some() { Context::Multi } else { Context::Toplevel };
        match self.shared.catalog.check(&client.user, entry.number, args, client.db_in_effect()) {
            Ok(()) => Ok(()),
            // SORT itself refuses its options, so not before EXEC.
            Err(Denied { reason: Reason::SortOption(_), .. }) if context == Context::Multi => Ok(()),
            Err(denied) => Err(self.deny(client, denied, args, context)),
        }
    }

    /// Counts and logs a denied command; the error that its client gets.
    #[cold]
    pub(crate) fn deny(
        &self,
        client: &Client,
        denied: Denied,
        args: Args<'_>,
        context: Context,
    ) -> CommandError {
        if !matches!(denied.reason, Reason::SortOption(_)) {
            self.log_incident(
                client,
                Incident {
                    reason: denied.reason.name(),
                    context: context.name(),
                    object: self.shared.catalog.object(denied, args),
                    username: &client.user.name,
                },
            );
        }
        CommandError::new(self.shared.catalog.error(&client.user, denied))
    }

    /// Adds an entry to ACL LOG.
    pub(crate) fn log_incident(&self, client: &Client, incident: Incident<'_>) {
        let line = self.describe_for_log(client);
        log::lock(&self.shared.acl_log).add(incident, line, self.now_ms, self.config.acllog_max_len);
    }

    fn describe_for_log(&self, client: &Client) -> Vec<u8> {
        let number = client.last_command.map(usize::from);
        let command = number.and_then(|number| self.shared.table.name_of(number)).unwrap_or("NULL");
        crate::describe::line(client, crate::describe::Sizes::default(), self.now_ms, command)
    }

    /// Gives changed users to this thread's clients and closes those who may not stay. Whether the client with id `me` is one of them;
    /// that one is left to itself.
    pub(crate) fn take_users(&mut self, changes: &Changes, me: u64) -> bool {
        if let Some(Some(user)) = changes.get(&self.default_user.id)
            && user.version > self.default_user.version
        {
            self.default_user = Arc::clone(user);
        }
        let open = self.default_user.is_open();
        let shared = self.shared;
        let mut gone: Vec<(ConnId, u64)> = Vec::new();
        for connection in self.connections() {
            let client = &mut connection.client;
            let stays = match changes.get(&client.user.id) {
                Some(None) => false,
                Some(Some(user)) if user.version > client.user.version => {
                    client.user = Arc::clone(user);
                    may_go_on_listening(client)
                }
                _ => true,
            };
            client.settle_rights(open);
            if !stays {
                client.logged_in = false;
                gone.push((connection.reactor_id, client.id));
            } else {
                check_waiting(&shared.catalog, connection);
            }
        }
        let suicide = gone.iter().any(|(_, id)| *id == me);
        gone.iter().filter(|(_, id)| *id != me).for_each(|(connection, _)| self.kill(*connection));
        suicide
    }
}

/// Whether a client may keep all its subscriptions.
fn may_go_on_listening(client: &Client) -> bool {
    let Some(subscriptions) = &client.subscriptions else { return true };
    [Kind::Channel, Kind::Pattern, Kind::ShardChannel]
        .into_iter()
        .all(|kind| subscriptions.names(kind).all(|name| client.user.may_listen(name, kind == Kind::Pattern)))
}

/// A command that waits for its keys is refused when it is served, if its user lacks the right by then.
fn check_waiting(catalog: &Catalog, connection: &Connection) {
    let Some(Waiting::Blocked(on)) = &connection.waiting else { return };
    let waiter = &on.blocked.waiter;
    let allowed =
        catalog.check(&connection.client.user, on.number, waiter.words.as_args(), waiter.db).is_ok();
    // Relaxed: who serves it next may as well have come a moment earlier.
    waiter.refused.store(!allowed, Ordering::Relaxed);
}

impl Cx<'_> {
    /// Tells all threads of changed users. `finish` writes the reply.
    pub(crate) fn tell_changes(
        &mut self,
        changes: Changes,
        finish: impl FnOnce(&mut resp::Reply) + 'static,
    ) -> Flow {
        let me = self.client.id;
        let changes = Arc::new(changes);
        let ask =
            Arc::new(move |worker: &mut Worker| -> Answer { Box::new(worker.take_users(&changes, me)) });
        let finish = move |_: &mut Cx<'_>, answers: Vec<Answer>, reply: &mut resp::Reply| {
            finish(reply);
            if answers_as::<bool>(answers).any(|own| own) { Flow::Close } else { Flow::Done }
        };
        self.broadcast(ask, Box::new(finish))
    }
}

/// CONFIG SET requirepass: the default user has another password.
pub fn require_password(shared: &Shared, password: &[u8]) -> Changes {
    let mut users = lock(&shared.users);
    let user = users.require_password(&shared.catalog, password);
    users.put(Arc::clone(&user));
    Changes::from([(user.id, Some(user))])
}

/// The lines of the users that CONFIG REWRITE writes: none if they are in a file of their own, or if there is only the default user and
/// `requirepass` says all about it.
pub fn lines_to_write(config: &Config, users: &Users) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = users.lines().collect();
    let is_plain = |user: &User| user.selectors().len() == 1 && user.unrestricted && user.enabled;
    let requirepass_says_it = match (config.requirepass.is_empty(), users.default_user()) {
        (true, user) => user.nopass && is_plain(user),
        (false, user) => user.passwords().len() == 1 && user.accepts(&config.requirepass) && is_plain(user),
    };
    if !config.aclfile.as_os_str().is_empty()
        || lines.len() == 1 && requirepass_says_it && config.users.is_empty()
    {
        lines.clear();
    }
    lines
}

/// The users with whom a server begins: those of `aclfile`, or `requirepass` and the `user` lines of the configuration. The text says why
/// the server must not start.
pub fn at_start(config: &Config, catalog: &Catalog) -> Result<Users, String> {
    let mut users = Users::new(catalog);
    if !config.requirepass.is_empty() {
        users.put(users.require_password(catalog, &config.requirepass));
    }
    if !config.aclfile.as_os_str().is_empty() {
        if !config.users.is_empty() {
            return Err("Users are defined in the configuration and in an aclfile: it must be one of them, so that none is forgotten"
                .to_owned());
        }
        return file::load(&config.aclfile, catalog, defaults(config))
            .map_err(|error| format!("Darter does not start because of errors in its ACL file: {error}"));
    }
    for declared in &config.users {
        let rules: Vec<&[u8]> = declared.rules.iter().map(Vec::as_slice).collect();
        let user = acl::users::declared(catalog, defaults(config), &declared.name, &rules)
            .expect("the configuration has checked its users");
        users.put(Arc::new(user));
    }
    Ok(users)
}

/// Whether a server can begin with its users: asked before the process becomes a daemon, so that whoever starts it sees the error.
pub fn check_start(config: &Config) -> Result<(), String> {
    if config.aclfile.as_os_str().is_empty() {
        return Ok(());
    }
    let table = Table::new(commands::FAMILIES, crate::commands::FAMILIES);
    at_start(config, &catalog(&table, 0)).map(|_| ())
}

/// Why a `user` line of the configuration is refused, if it is.
pub fn check_declared(name: &[u8], rules: &[&[u8]]) -> Result<(), String> {
    let table = Table::new(commands::FAMILIES, crate::commands::FAMILIES);
    let catalog = catalog(&table, 0);
    let shown = String::from_utf8_lossy(name);
    if acl::parse::has_spaces(name) {
        return Err(format!("Error in user declaration '{shown}': Spaces not allowed in ACL usernames"));
    }
    match acl::users::declared(&catalog, Defaults { all_channels: false }, name, rules) {
        Ok(_) => Ok(()),
        Err(acl::users::LineError::Unmatched) => {
            Err(format!("Error in user declaration '{shown}': Unmatched parenthesis in selector definition"))
        }
        Err(acl::users::LineError::Rule(at, error)) => {
            let rule = rules.get(at).map(|rule| String::from_utf8_lossy(rule)).unwrap_or_default();
            Err(format!("Error in user declaration '{shown}', rule '{rule}': {}", error.text()))
        }
    }
}
