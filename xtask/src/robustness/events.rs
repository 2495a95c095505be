//! Keyspace events of what no client does at that moment: clients that waited are served, keys and fields expire. What commands tell
//! is compared with a reference server by `cargo xtask differential --notifications`.

use super::{Scene, expect};
use crate::fail::Result;
use crate::wire::Client;

/// A listener, and the events that it must hear next.
struct Listener(Client);

impl Listener {
    fn new(scene: &Scene) -> Result<Self> {
        let mut client = scene.client()?;
        client.call(&["PSUBSCRIBE", "__keyevent@*"])?;
        Ok(Self(client))
    }

    /// The next event that is not about the neighbour's keys: its name and its key.
    fn next(&mut self) -> Result<String> {
        loop {
            let message = self.0.receive()?;
            let [_, _, channel, key] = &message.items()[..] else {
                return Err(format!("not a message: {}", message.render()).into());
            };
            if !key.text().starts_with("neighbour:") {
                let channel = channel.text();
                let name = channel.split_once("__:").map(|(_, name)| name).unwrap_or_default();
                return Ok(format!("{name} {}", key.text()));
            }
        }
    }

    fn hears(&mut self, events: &[&str]) -> Result<()> {
        events.iter().try_for_each(|event| {
            let heard = self.next()?;
            if heard == *event { Ok(()) } else { Err(format!("{event:?} was to come, not {heard:?}").into()) }
        })
    }
}

/// Whoever waited is served behind the command that brought something: so are its events.
pub fn of_waiting(scene: &mut Scene) -> Result<()> {
    let mut listener = Listener::new(scene)?;
    let mut other = scene.client()?;
    let wait = |words: &[&str], other: &mut Client| -> Result<Client> {
        let mut client = scene.client()?;
        client.send(words)?;
        while other.call(&["INFO", "clients"])?.text().contains("blocked_clients:0") {
            std::thread::yield_now();
        }
        Ok(client)
    };
    let mut first = wait(&["BLPOP", "q1", "q2", "0"], &mut other)?;
    other.call(&["RPUSH", "q2", "a", "b"])?;
    listener.hears(&["rpush q2", "lpop q2"])?;
    expect(first.receive()?, "1) \"q2\"\n2) \"a\"")?;
    let mut second = wait(&["BLMOVE", "q3", "q4", "LEFT", "RIGHT", "0"], &mut other)?;
    other.call(&["LPUSH", "q3", "x"])?;
    listener.hears(&["lpush q3", "rpush q4", "lpop q3", "del q3"])?;
    expect(second.receive()?, "\"x\"")?;
    let mut third = wait(&["BLMPOP", "0", "1", "q5", "LEFT"], &mut other)?;
    for words in [&["MULTI"][..], &["LPUSH", "q5", "x"], &["SET", "k", "1"], &["EXEC"]] {
        other.call(words)?;
    }
    listener.hears(&["lpush q5", "set k", "lpop q5", "del q5"])?;
    third.receive().map(drop)
}

/// Keys and fields that nobody asks for.
pub fn of_the_background(scene: &mut Scene) -> Result<()> {
    let mut listener = Listener::new(scene)?;
    let mut client = scene.client()?;
    client.call(&["SET", "short", "1", "PX", "1"])?;
    listener.hears(&["set short", "expire short", "expired short"])?;
    client.call(&["HSET", "h", "a", "1", "b", "2"])?;
    client.call(&["HPEXPIRE", "h", "1", "FIELDS", "1", "a"])?;
    listener.hears(&["hset h", "hexpire h", "hexpired h"])?;
    client.call(&["HPEXPIRE", "h", "1", "FIELDS", "1", "b"])?;
    listener.hears(&["hexpire h", "hexpired h", "del h"])?;
    Ok(())
}
