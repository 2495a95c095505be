//! Publishers and subscribers: one order for all, nothing left behind, nobody's memory taken.

use std::time::{Duration, Instant};

use super::{Scene, expect};
use crate::fail::Result;
use crate::wire::{self, Client, Value};

/// Messages of one publisher in [`order`].
const MESSAGES: usize = 2_000;

/// What a subscriber was sent: the payload of a message.
fn payload(message: &Value) -> Result<String> {
    match message.items().last() {
        Some(payload) if message.items().len() >= 3 => Ok(payload.text()),
        _ => Err(format!("no message: {:.200}", message.render()).into()),
    }
}

fn subscriber(scene: &Scene, words: &[&str], resp3: bool) -> Result<Client> {
    let mut client = scene.client()?;
    if resp3 {
        client.call(&["HELLO", "3"])?;
    }
    client.call(words)?;
    Ok(client)
}

/// Two publishers on one channel, subscribers by name and by pattern on every thread: all see the same order, which keeps each publisher's own.
pub fn order(scene: &mut Scene) -> Result<()> {
    let mut subscribers = Vec::new();
    for n in 0..12 {
        let words: &[&str] = if n % 3 == 0 { &["PSUBSCRIBE", "n[e]ws"] } else { &["SUBSCRIBE", "news"] };
        subscribers.push(subscriber(scene, words, n % 2 == 0)?);
    }
    let publishers = [scene.client()?, scene.client()?];
    let readers: Vec<_> = subscribers
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || -> std::result::Result<Vec<String>, String> {
                (0..2 * MESSAGES)
                    .map(|_| {
                        client.receive().and_then(|message| payload(&message)).map_err(|e| e.to_string())
                    })
                    .collect()
            })
        })
        .collect();
    std::thread::scope(|scope| {
        let publish = |(who, mut client): (usize, Client)| -> Result<()> {
            let mut out = Vec::new();
            for n in 0..MESSAGES {
                wire::encode(&["PUBLISH", "news", &format!("{who}:{n}")], &mut out);
            }
            client.send_raw(&out)?;
            for _ in 0..MESSAGES {
                expect(client.receive()?, "(integer) 12")?;
            }
            Ok(())
        };
        let threads: Vec<_> = publishers
            .into_iter()
            .enumerate()
            .map(|each| scope.spawn(move || publish(each).map_err(|e| e.to_string())))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a publisher panicked".to_string())?)
    })?;
    let mut orders = Vec::new();
    for reader in readers {
        orders.push(reader.join().map_err(|_| "a subscriber panicked")??);
    }
    if orders.iter().any(|order| order != &orders[0]) {
        return Err("subscribers saw different orders".into());
    }
    for who in ["0:", "1:"] {
        let own = orders[0].iter().filter_map(|message| message.strip_prefix(who));
        if !own.eq((0..MESSAGES).map(|n| n.to_string()).collect::<Vec<_>>().iter()) {
            return Err(format!("the order of publisher {who} was not kept").into());
        }
    }
    Ok(())
}

/// 100,000 subscriptions of one client, which then goes: nothing is left of them.
pub fn many_subscriptions(scene: &mut Scene) -> Result<()> {
    const CHANNELS: usize = 100_000;
    let mut client = scene.client()?;
    for kind in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
        let mut words = vec![kind.to_string()];
        words.extend((0..CHANNELS).map(|n| format!("channel:{n}")));
        client.send(&words)?;
        (0..CHANNELS).try_for_each(|_| client.receive().map(drop))?;
    }
    let mut asking = scene.client()?;
    expect(asking.call(&["PUBSUB", "NUMPAT"])?, "(integer) 100000")?;
    expect(asking.call(&["PUBLISH", "channel:77", "x"])?, "(integer) 2")?;
    expect(asking.call(&["SPUBLISH", "channel:77", "x"])?, "(integer) 1")?;
    drop(client);
    let started = Instant::now();
    while asking.call(&["PUBSUB", "NUMPAT"])?.render() != "(integer) 0" {
        if started.elapsed() > Duration::from_secs(10) {
            return Err("subscriptions of a client that has gone are still there".into());
        }
        std::thread::yield_now();
    }
    expect(asking.call(&["PUBSUB", "CHANNELS"])?, "(empty array)")?;
    expect(asking.call(&["PUBSUB", "SHARDCHANNELS"])?, "(empty array)")
}

/// A subscriber that never reads is closed at `client-output-buffer-limit pubsub`; the others get everything.
pub fn never_reads(scene: &mut Scene) -> Result<()> {
    const ROUNDS: usize = 600;
    const GROWTH_MIB_MAX: u64 = 100;
    let before = scene.rss_mib()?;
    let deaf = subscriber(scene, &["SUBSCRIBE", "loud"], false)?;
    let mut listening = subscriber(scene, &["SUBSCRIBE", "loud"], false)?;
    let mut publisher = scene.client()?;
    let payload = vec![b'x'; 100_000];
    for _ in 0..ROUNDS {
        publisher.call(&[b"PUBLISH".as_slice(), b"loud", &payload])?;
        if listening.receive()?.items().last().and_then(|last| last.bytes()) != Some(payload.as_slice()) {
            return Err("a message was changed".into());
        }
    }
    expect(publisher.call(&["PUBSUB", "NUMSUB", "loud"])?, "1) \"loud\"\n2) (integer) 1")?;
    let growth = scene.rss_mib()?.saturating_sub(before);
    drop(deaf);
    if growth > GROWTH_MIB_MAX {
        return Err(format!("a subscriber that does not read took {growth} MiB").into());
    }
    Ok(())
}
