//! One connection of the load: its stream of requests, what is in flight on it, and the replies that come in. Knows neither the reactor
//! nor the clock.
//!
//! HOT: everything here runs per request or per arrival. No allocation once the queues have grown, no lock, no system call.

use std::collections::VecDeque;
use std::io::{Read, Write};

use reactor::ConnId;
use rustls::ClientConnection;

use crate::recorder::{Recorder, Reply as Recorded};
use crate::replies::{self, Malformed, Reply, Skipper};
use crate::template::Context;
use crate::workload::{Check, Command, Dry, Made, Stream};

/// Requests in flight that left together and differ in nothing that is recorded.
#[derive(Copy, Clone, Debug)]
pub(super) struct Sent {
    made: Made,
    count: u32,
    /// Of all of them.
    bytes: u32,
    /// When it was handed to the kernel.
    at_ns: u64,
    /// When it should have been; the same in a closed loop.
    intended_ns: u64,
}

/// One connection.
pub(super) struct Link {
    pub id: ConnId,
    pub node: usize,
    pub stream: Stream,
    pub tls: Option<Box<ClientConnection>>,
    sent: VecDeque<Sent>,
    in_flight: usize,
    /// Of `sent`: those at the end whose moment of sending is not known.
    unstamped: usize,
    skipper: Skipper,
    /// Under `--verify`: bytes of a reply that is not complete.
    held: Vec<u8>,
    /// Sends no more.
    pub done: bool,
    /// Its node has no slots any more.
    pub lost: bool,
    /// Replies, not told yet, that said that a key belongs elsewhere.
    pub redirected: u32,
    /// Is on the list of those that may send.
    pub listed: bool,
    /// With fixed shares: requests that it has yet to send.
    pub share: u64,
}

/// Replies that share everything that is recorded.
struct Group {
    command: usize,
    at_ns: u64,
    intended_ns: u64,
    count: u64,
    hits: u64,
    misses: u64,
    sent: u64,
    received: u64,
}

/// What arrivals brought that the connection cannot go on with.
#[derive(Debug)]
pub(super) enum Trouble {
    Malformed(Malformed),
    /// More replies than requests.
    Unasked,
    /// TLS has failed.
    Tls(String),
    /// An error reply after which the figures would mean nothing.
    Refused {
        command: usize,
        text: String,
    },
}

/// What replies are judged by.
pub(super) struct Judge<'a> {
    pub commands: &'a [Command],
    pub context: &'a Context,
    pub cluster: bool,
    /// Requests meant for an earlier moment belong to the warm-up.
    pub began_ns: u64,
}

impl Link {
    pub fn new(id: ConnId, node: usize, stream: Stream, tls: Option<Box<ClientConnection>>) -> Link {
        Link {
            id,
            node,
            stream,
            tls,
            sent: VecDeque::new(),
            in_flight: 0,
            unstamped: 0,
            skipper: Skipper::default(),
            held: Vec::new(),
            done: false,
            lost: false,
            redirected: 0,
            listed: false,
            share: 0,
        }
    }

    /// Requests whose replies are not here.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// When the oldest request in flight was sent.
    pub fn oldest_ns(&self) -> Option<u64> {
        self.sent.front().filter(|sent| sent.at_ns > 0).map(|sent| sent.at_ns)
    }

    /// Appends up to `count` requests to `out`, to be stamped when they leave, and says how many. `intended_ns` is nothing in a closed
    /// loop. With `apart` each is recorded by itself.
    #[inline]
    pub fn write(
        &mut self,
        count: u32,
        intended_ns: Option<u64>,
        apart: bool,
        out: &mut Vec<u8>,
    ) -> Result<u32, Dry> {
        let start = out.len();
        let (made, count) = self.stream.write_some(count as usize, out)?;
        let (bytes, count) = ((out.len() - start) as u32, count as u32);
        self.in_flight += count as usize;
        if self.unstamped > 0
            && !apart
            && let Some(last) = self.sent.back_mut()
            && last.made.command == made.command
        {
            last.count += count;
            last.bytes += bytes;
            return Ok(count);
        }
        self.sent.push_back(Sent { made, count, bytes, at_ns: 0, intended_ns: intended_ns.unwrap_or(0) });
        self.unstamped += 1;
        Ok(count)
    }

    /// Whether something is waiting for its stamp.
    pub fn is_fresh(&self) -> bool {
        self.unstamped > 0
    }

    /// All that was written leaves now.
    #[inline]
    pub fn stamp(&mut self, now_ns: u64) {
        let count = std::mem::take(&mut self.unstamped);
        for sent in self.sent.iter_mut().rev().take(count) {
            sent.at_ns = now_ns;
            if sent.intended_ns == 0 {
                sent.intended_ns = now_ns;
            }
        }
    }

    /// What goes onto the wire for these bytes.
    pub fn seal(&mut self, plain: Vec<u8>) -> Result<Vec<u8>, Trouble> {
        let Some(tls) = &mut self.tls else { return Ok(plain) };
        let mut wire = Vec::with_capacity(plain.len() + 256);
        tls.writer().write_all(&plain).map_err(|error| Trouble::Tls(error.to_string()))?;
        while tls.wants_write() {
            tls.write_tls(&mut wire).map_err(|error| Trouble::Tls(error.to_string()))?;
        }
        Ok(wire)
    }

    /// The bytes that came, deciphered into `plain` where that is needed, and an answer that TLS itself wants to give.
    pub fn unseal(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<Vec<u8>, Trouble> {
        let Some(tls) = &mut self.tls else { return Ok(Vec::new()) };
        let fault = |error: &dyn std::fmt::Display| Trouble::Tls(error.to_string());
        while !wire.is_empty() {
            tls.read_tls(&mut wire).map_err(|error| fault(&error))?;
            let state = tls.process_new_packets().map_err(|error| fault(&error))?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut plain[start..]).map_err(|error| fault(&error))?;
        }
        let mut answer = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut answer).map_err(|error| fault(&error))?;
        }
        Ok(answer)
    }

    /// Takes bytes that arrived at `now_ns` and records the replies that they complete.
    #[inline]
    pub fn receive(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        judge: &Judge<'_>,
        recorder: &mut Recorder,
    ) -> Result<(), Trouble> {
        let Link { sent, in_flight, skipper, held, node, redirected, .. } = self;
        let verify = judge.context.verify;
        if verify {
            held.extend_from_slice(bytes);
            *skipper = Skipper::singly();
        }
        let data: &[u8] = if verify { held } else { bytes };
        let (mut group, mut start, mut trouble) = (None, 0, None);
        let result = skipper.feed(data, |reply, count, end| {
            let received = (end - start) as u64 / u64::from(count);
            let whole = &data[start..end];
            start = end;
            let mut left = count;
            while left > 0 {
                let Some(one) = take(sent, &mut left) else {
                    trouble.get_or_insert(Trouble::Unasked);
                    return;
                };
                *in_flight -= one.count as usize;
                if let Reply::Error(text) = reply
                    && judge.cluster
                    && is_redirection(text)
                {
                    // The node has served nothing: neither a request of the figures nor an error.
                    *redirected += one.count;
                    continue;
                }
                if one.intended_ns >= judge.began_ns {
                    add(&mut group, one, received, reply, judge, *node, now_ns, recorder);
                }
                if let Reply::Error(text) = reply {
                    let command = usize::from(one.made.command);
                    recorder.error(command, *node, text);
                    if is_fatal(text, judge.cluster) {
                        let text = String::from_utf8_lossy(text).into_owned();
                        trouble.get_or_insert(Trouble::Refused { command, text });
                    }
                } else if verify && !is_right(&one, whole, reply, judge) {
                    recorder.error(usize::from(one.made.command), *node, WRONG_VALUE);
                }
            }
        });
        flush(group, *node, now_ns, recorder);
        if verify {
            held.drain(..start);
        }
        result.map_err(Trouble::Malformed)?;
        trouble.map_or(Ok(()), Err)
    }
}

fn is_redirection(text: &[u8]) -> bool {
    text.starts_with(b"MOVED ") || text.starts_with(b"ASK ")
}

/// What the list of errors says about a value that is not the one that was set.
const WRONG_VALUE: &[u8] = b"(verify) GET returned another value than was set";

fn is_right(one: &Sent, whole: &[u8], reply: Reply<'_>, judge: &Judge<'_>) -> bool {
    let check = judge.commands[usize::from(one.made.command)].check;
    check == Check::Any
        || reply == Reply::Nil
        || replies::bulk(whole) == Some(judge.context.data.of_key(one.made.key))
}

/// Takes up to `left` requests off the front, all from one entry.
#[inline]
fn take(sent: &mut VecDeque<Sent>, left: &mut u32) -> Option<Sent> {
    let front = sent.front_mut()?;
    if front.count <= *left {
        *left -= front.count;
        return sent.pop_front();
    }
    let bytes = (u64::from(front.bytes) * u64::from(*left) / u64::from(front.count)) as u32;
    let taken = Sent { count: *left, bytes, ..*front };
    front.count -= taken.count;
    front.bytes -= taken.bytes;
    *left = 0;
    Some(taken)
}

/// Adds replies to the group that it belongs to; records the group before it if it does not.
#[expect(
    clippy::too_many_arguments,
    reason = "inlined into the loop over replies, where each is a local already"
)]
#[inline]
fn add(
    group: &mut Option<Group>,
    one: Sent,
    received: u64,
    reply: Reply<'_>,
    judge: &Judge<'_>,
    node: usize,
    now_ns: u64,
    recorder: &mut Recorder,
) {
    let command = usize::from(one.made.command);
    let same = |group: &Group| {
        group.command == command && group.at_ns == one.at_ns && group.intended_ns == one.intended_ns
    };
    if !group.as_ref().is_some_and(same) {
        flush(group.take(), node, now_ns, recorder);
        let (at_ns, intended_ns) = (one.at_ns, one.intended_ns);
        *group =
            Some(Group { command, at_ns, intended_ns, count: 0, hits: 0, misses: 0, sent: 0, received: 0 });
    }
    let group = group.as_mut().expect("there is a group now");
    let count = u64::from(one.count);
    group.count += count;
    group.sent += u64::from(one.bytes);
    group.received += received * count;
    if judge.commands[command].is_read {
        match reply {
            Reply::Value => group.hits += count,
            Reply::Nil => group.misses += count,
            Reply::Error(_) => {}
        }
    }
}

#[inline]
fn flush(group: Option<Group>, node: usize, now_ns: u64, recorder: &mut Recorder) {
    let Some(group) = group else { return };
    recorder.reply(Recorded {
        command: group.command,
        node,
        count: group.count,
        corrected_ns: now_ns.saturating_sub(group.intended_ns),
        uncorrected_ns: now_ns.saturating_sub(group.at_ns),
    });
    recorder.bytes(group.command, group.sent, group.received);
    if group.hits + group.misses > 0 {
        recorder.found(group.command, group.hits, group.misses);
    }
}

/// Errors that say that the run is aimed at the wrong place, or comes at the wrong time. In a cluster MOVED is the map's change.
fn is_fatal(text: &[u8], cluster: bool) -> bool {
    let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    match word {
        b"NOAUTH" | b"LOADING" => true,
        b"MOVED" | b"ASK" | b"CROSSSLOT" => !cluster,
        _ => false,
    }
}
