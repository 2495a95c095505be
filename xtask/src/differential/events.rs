//! Keyspace events of a command, as a second connection hears them. Not how they are compared with those of the other server: `play.rs`.

use crate::fail::Result;
use crate::server::Server;
use crate::wire::{Client, Value};
use crate::words;

use super::generate::Step;

/// Servers are started with these words: every event, misses and new keys included.
pub const SETTING: [&str; 2] = ["--notify-keyspace-events", "KEAmn"];

/// A channel that fits the pattern of the listener and is no event.
const MARK: &[u8] = b"__keymark";

/// Somebody who hears every event.
pub struct Listener {
    ears: Client,
    /// Marks the end of the events of a command.
    marker: Client,
    /// Something was given a deadline in the past by a command that leaves it to the server when that is noticed.
    expires_sometime: bool,
}

impl Listener {
    pub fn connect(server: &Server) -> Result<Self> {
        let (mut ears, marker) = (server.client()?, server.client()?);
        ears.call(&["PSUBSCRIBE", "__key*"])?;
        Ok(Self { ears, marker, expires_sometime: false })
    }

    /// The events of the command that has just been answered, a line each.
    pub fn heard(&mut self, step: &Step) -> Result<Vec<String>> {
        let name = step.words[0].to_ascii_lowercase();
        self.expires_sometime |= name == b"msetex" || name == b"hsetex";
        self.marker.call(&[b"PUBLISH".as_slice(), MARK, b""])?;
        let mut events = Vec::new();
        loop {
            let message = self.ears.receive()?;
            let [_, _, channel, payload] = &message.items()[..] else {
                return Err(format!("not a message: {}", message.render()).into());
            };
            let (channel, payload) = (bytes(channel)?, bytes(payload)?);
            if channel == MARK {
                return Ok(once(events));
            }
            let event = if channel.starts_with(b"__keyevent") { channel } else { payload };
            let is_expiry = event.ends_with(b"expired");
            if !(self.expires_sometime && is_expiry) {
                let line = [channel, payload].map(words::plain_or_quoted);
                events.push(line.join(" "));
            }
        }
    }
}

/// Some commands look a key up twice in the peer (XREAD), so that a missing one is missed twice: of each command a miss counts once.
fn once(events: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for event in events {
        if !event.contains("keymiss") || !kept.contains(&event) {
            kept.push(event);
        }
    }
    kept
}

fn bytes(value: &Value) -> Result<&[u8]> {
    value.bytes().ok_or_else(|| format!("not a string: {}", value.render()).into())
}
