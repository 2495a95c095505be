//! What servers say about themselves while they are under load: INFO once a second on connections of its own, read into samples.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use reactor::clock;

use crate::client::{Address, Client, Login, Value};
use crate::fault::Result;
use crate::record::ServerSample;

/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// What INFO says, by field.
pub struct Info(HashMap<String, String>);

impl Info {
    /// Asks a server. An error reply (a server without INFO, a user who may not) reads as no fields.
    pub fn ask(client: &mut Client) -> Result<Info> {
        // Without a section: that is what every server knows.
        let text = match client.call(&["INFO"])? {
            Value::Text(text) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        };
        Ok(Info::parse(&text))
    }

    /// From the text of an INFO reply.
    #[must_use]
    pub fn parse(text: &str) -> Info {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Info(fields.map(|(name, value)| (name.to_string(), value.trim().to_string())).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    fn seconds(&self, name: &str) -> f64 {
        self.text(name)
            .and_then(|value| value.parse().ok())
            .filter(|value: &f64| *value >= 0.0)
            .unwrap_or(0.0)
    }

    /// Keys of all databases: `db0:keys=5,expires=0,avg_ttl=0`.
    fn keys(&self) -> u64 {
        let databases = self.0.iter().filter(|(name, _)| {
            name.strip_prefix("db").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        let keys =
            databases.filter_map(|(_, value)| value.split(',').find_map(|part| part.strip_prefix("keys=")));
        keys.filter_map(|keys| keys.parse::<u64>().ok()).sum()
    }

    /// The server's name and version: `valkey 9.1.2`.
    #[must_use]
    pub fn version(&self) -> String {
        // Several servers call themselves redis for old clients and say who they are in a field of their own.
        const NAMES: &[(&str, &str)] = &[
            ("darter_version", "darter"),
            ("dragonfly_version", "dragonfly"),
            ("garnet_version", "garnet"),
            ("valkey_version", "valkey"),
            ("redis_version", "redis"),
        ];
        let found = NAMES.iter().find_map(|(field, name)| Some((name, self.text(field)?)));
        found
            .map(|(name, version)| format!("{name} {}", version.trim_start_matches("df-v")))
            .unwrap_or_default()
    }

    /// The figures, as a sample of `node` taken `at_s` seconds after measuring began.
    #[must_use]
    pub fn sample(&self, node: usize, at_s: f64) -> ServerSample {
        ServerSample {
            at_s,
            node,
            cpu: Duration::from_secs_f64(self.seconds("used_cpu_user") + self.seconds("used_cpu_sys")),
            commands: self.number("total_commands_processed"),
            used_memory: self.number("used_memory"),
            rss: self.number("used_memory_rss"),
            keys: self.keys(),
            evicted: self.number("evicted_keys"),
            expired: self.number("expired_keys"),
            errors: self.number("total_error_replies"),
            connections: self.number("connected_clients"),
        }
    }
}

/// A thread that samples servers until it is dropped.
pub struct Sampler {
    stop: Sender<()>,
    samples: Receiver<ServerSample>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Connects to all servers and begins at once. Servers that do not let themselves be asked are left out.
    #[must_use]
    pub fn start(addresses: Vec<Address>, login: Login, began_ns: u64) -> Sampler {
        let (stop, stopped) = channel();
        let (sender, samples) = channel();
        let work = move || {
            let clients = addresses.iter().map(|address| Client::open(address, &login).ok());
            let mut clients: Vec<Option<Client>> = clients.collect();
            loop {
                for (node, place) in clients.iter_mut().enumerate() {
                    let Some(client) = place else { continue };
                    let Ok(info) = Info::ask(client) else {
                        *place = None;
                        continue;
                    };
                    let at_s = (clock::monotonic_ns() as f64 - began_ns as f64) / 1e9;
                    if sender.send(info.sample(node, at_s)).is_err() {
                        return;
                    }
                }
                match stopped.recv_timeout(INTERVAL) {
                    Err(RecvTimeoutError::Timeout) => {}
                    // A last sample at the end of the run.
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name("bench-info".into()).spawn(work).ok();
        Sampler { stop, samples, thread }
    }

    /// Samples since the last call.
    pub fn take(&self) -> Vec<ServerSample> {
        self.samples.try_iter().collect()
    }

    /// Takes one more sample of each server, and ends.
    #[must_use]
    pub fn finish(mut self) -> Vec<ServerSample> {
        let _ = self.stop.send(());
        let (stop, _) = channel();
        drop(std::mem::replace(&mut self.stop, stop));
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic there has been printed.
            let _ = thread.join();
        }
        self.samples.try_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read() {
        let info = Info::parse(
            "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n# Memory\r\nused_memory:1000\r\nused_memory_rss:2000\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.25\r\ndb0:keys=5,expires=0,avg_ttl=0\r\ndb11:keys=7,expires=0\r\ndbx:keys=9\r\nevicted_keys:3\r\n",
        );
        let sample = info.sample(2, -0.5);
        assert_eq!(info.version(), "valkey 9.1.2");
        assert_eq!((sample.node, sample.at_s, sample.cpu), (2, -0.5, Duration::from_millis(1750)));
        assert_eq!((sample.used_memory, sample.rss, sample.keys, sample.evicted), (1000, 2000, 12, 3));
        assert_eq!(Info::parse("").version(), "");
    }
}
