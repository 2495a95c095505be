//! The ACL file: read at the start and by ACL LOAD, written by ACL SAVE. A command never waits for a disk on its thread: a short-lived
//! thread of its own does.

use std::path::Path;

use acl::user::Defaults;
use acl::{Catalog, Users};
use command::CommandError;

use crate::broadcast::{Answer, Finish, Gathering};
use crate::config::os_text;
use crate::connection::Waiting;
use crate::shared::Message;
use crate::worker::{Cx, Flow};

/// The users of a file, or everything that is wrong with it.
pub fn load(path: &Path, catalog: &Catalog, defaults: Defaults) -> Result<Users, String> {
    let text = std::fs::read(path).map_err(|error| {
        format!("Error loading ACLs, opening file '{}': {}", path.display(), os_text(&error))
    })?;
    Users::parse(catalog, defaults, &text, &path.display().to_string())
}

/// Writes the users into a file, which has either the old users or the new ones, whatever happens.
pub fn save(path: &Path, lines: &[Vec<u8>]) -> std::io::Result<()> {
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    crate::config::replace_file(path, &text)
}

impl Cx<'_> {
    /// Runs `job`, which may block, on a thread of its own; the connection waits for what it answers.
    pub(crate) fn aside(
        &mut self,
        job: impl FnOnce() -> Answer + Send + 'static,
        finish: Finish,
    ) -> Result<Flow, CommandError> {
        let (shared, ticket) = (self.worker.shared, self.ticket);
        let run = move || {
            let answer = job();
            shared.send(ticket.thread, Message::Answer(ticket.connection, answer));
        };
        std::thread::Builder::new().name("darter-file".to_owned()).spawn(run).map_err(|error| {
            ::log::warn!("A thread for files cannot be started: {}", os_text(&error));
            CommandError::fixed("ERR The server cannot start a thread for its files. Check logs.")
        })?;
        let started = reactor::clock::ticks();
        let gathering = Gathering { answers: Vec::new(), missing: 1, finish, started };
        Ok(self.wait_for(Waiting::Answers(Box::new(gathering))))
    }
}
