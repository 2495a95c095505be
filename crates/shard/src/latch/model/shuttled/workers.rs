//! Whole threads as the server runs them: they serve connections, read their mail, do their duty, and sleep when there is nothing
//! to do. A lost wake-up or a shard that waits for a sleeping thread shows as a deadlock.

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

use super::latch::{Duty, Entered, Mailbox, Pace, Shards, Submitted, Visit};
use super::run::check;
use crate::ShardId;

/// What wakes a thread out of its event loop: stays set until the thread looks.
#[derive(Default)]
struct Signal {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn wake(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
        *set = false;
    }
}

#[derive(Default)]
struct Peer {
    mailbox: Mailbox<Command>,
    signal: Signal,
}

/// A command of a connection; the command after it is only sent when it has come back.
#[derive(Clone, Copy)]
struct Command {
    home: usize,
    connection: usize,
    number: usize,
}

struct Task {
    command: Command,
    peers: Arc<Vec<Peer>>,
}

impl Visit<Vec<Command>> for Task {
    fn execute(&mut self, entered: &mut Entered<'_, Vec<Command>>) {
        entered.iter_mut().for_each(|(_, log)| log.push(self.command));
    }

    fn deliver(self: Box<Self>) {
        let peer = &self.peers[self.command.home];
        if peer.mailbox.push(self.command) {
            peer.signal.wake();
        }
    }
}

const CONNECTIONS: usize = 2;
const COMMANDS: usize = 3;

struct Worker {
    me: usize,
    peers: Arc<Vec<Peer>>,
    shards: Arc<Shards<Vec<Command>>>,
    duty: Duty<Vec<Command>>,
    /// The number of the command that each connection sends next.
    next: [usize; CONNECTIONS],
}

impl Worker {
    /// Sends commands of a connection until one is posted.
    fn serve(&mut self, connection: usize) {
        while self.next[connection] < COMMANDS {
            let command = Command { home: self.me, connection, number: self.next[connection] };
            let count = self.shards.len() as ShardId;
            let first = thread_rng().gen_range(0..count);
            let ids: Vec<ShardId> =
                (first..count).filter(|&id| id == first || thread_rng().gen_bool(0.3)).collect();
            let task = Task { command, peers: Arc::clone(&self.peers) };
            match self.shards.submit(&ids, Box::new(task), &mut self.duty) {
                Submitted::Done(_) => self.next[connection] += 1,
                Submitted::Posted => return,
            }
        }
    }

    fn run(mut self) {
        (0..CONNECTIONS).for_each(|connection| self.serve(connection));
        while self.next != [COMMANDS; CONNECTIONS] || !self.duty.is_empty() {
            let peer = &self.peers[self.me];
            if self.duty.is_empty() && peer.mailbox.prepare_sleep() {
                peer.signal.wait();
            }
            peer.mailbox.awake();
            for command in peer.mailbox.take() {
                assert_eq!(
                    (command.home, command.number),
                    (self.me, self.next[command.connection]),
                    "a stray reply"
                );
                self.next[command.connection] += 1;
                self.serve(command.connection);
            }
            self.shards.resume(&mut self.duty);
        }
    }
}

fn server(threads: usize, count: usize, visits_max: u32) {
    let pace = Pace { visits_max, ticks_max: u64::MAX, ticks: || 0 };
    let shards = Arc::new(Shards::new(count, pace, |_| Vec::new()));
    let peers: Arc<Vec<Peer>> = Arc::new((0..threads).map(|_| Peer::default()).collect());
    let handles: Vec<_> = (0..threads)
        .map(|me| {
            let (peers, shards) = (Arc::clone(&peers), Arc::clone(&shards));
            thread::spawn(move || {
                Worker { me, peers, shards, duty: Duty::new(), next: [0; CONNECTIONS] }.run();
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    for id in 0..count as ShardId {
        let log =
            shards.with_one(id, &mut Duty::new(), |log| log.clone()).expect("everybody has gone: it is free");
        for (home, connection) in
            (0..threads).flat_map(|home| (0..CONNECTIONS).map(move |other| (home, other)))
        {
            let of = log.iter().filter(|command| command.home == home && command.connection == connection);
            assert!(of.map(|command| command.number).is_sorted(), "commands of a connection were reordered");
        }
    }
}

#[test]
fn no_wake_up_is_lost() {
    check(10_000, || server(3, 2, 32));
}

#[test]
fn no_wake_up_is_lost_with_a_pace_of_one() {
    check(10_000, || server(3, 4, 1));
}
