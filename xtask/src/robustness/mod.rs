//! `cargo xtask robustness`: what a hostile, broken or hasty client sends, and what a wrong start says. Never a crash, a hang, unbounded
//! memory, or a wrong neighbour's reply: a neighbour talks to the same server all the while and checks every one of its replies.

mod blocking;
mod connections;
mod contention;
mod events;
mod limits;
mod messages;
mod protocol;
mod scripts;
mod start;
mod tracking;
mod users;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::bench::process;
use crate::fail::Result;
use crate::server::{Program, Server};
use crate::tally::Tally;
use crate::wire::{Client, Value};

/// A test: its name, the server's words, and what it does.
struct Case {
    name: &'static str,
    words: &'static [&'static str],
    run: fn(&mut Scene) -> Result<()>,
}

const EVENTS: &[&str] = &["--notify-keyspace-events", "EA"];

const CASES: &[Case] = &[
    Case {
        name: "counts and lengths that are negative, huge or no numbers",
        words: &[],
        run: protocol::bad_counts,
    },
    Case {
        name: "before AUTH only small commands",
        words: &["--requirepass", "secret"],
        run: protocol::before_auth,
    },
    Case {
        name: "a million-element header with nothing behind it",
        words: &[],
        run: protocol::million_elements,
    },
    Case {
        name: "half a command, then silence, at every byte",
        words: &[],
        run: protocol::silence_at_every_byte,
    },
    Case {
        name: "half a command, then disconnect, at every byte",
        words: &[],
        run: protocol::disconnect_at_every_byte,
    },
    Case { name: "64 KiB of inline garbage", words: &[], run: protocol::inline_garbage },
    Case { name: "random bytes (seeded)", words: &[], run: protocol::random_bytes },
    Case { name: "an HTTP POST is closed and logged", words: &[], run: protocol::http_post },
    Case { name: "binary keys of 0 B to 512 MB", words: &[], run: limits::binary_keys },
    Case { name: "values up to 512 MB both ways", words: &[], run: limits::large_values },
    Case { name: "elements of 0 B to 512 MB in every type", words: &[], run: limits::large_elements },
    Case { name: "commands of a million words", words: &[], run: limits::million_words },
    Case { name: "integer overflow in every counter command", words: &[], run: limits::counters },
    Case { name: "expiry beyond the representable", words: &[], run: limits::expiry },
    Case { name: "CONFIG SET with wrong types", words: &[], run: limits::config_set },
    Case { name: "100 MB pipelined and never read", words: &[], run: connections::never_reads },
    Case { name: "10,000 connections come and go", words: &[], run: connections::come_and_go },
    Case { name: "more clients than maxclients", words: &["--maxclients", "50"], run: connections::too_many },
    Case {
        name: "a silent client over the soft output limit",
        words: &["--client-output-buffer-limit", "normal 0 1mb 1"],
        run: connections::over_soft_limit,
    },
    Case {
        name: "timeout and clients that read slowly",
        words: &["--timeout", "1"],
        run: connections::slow_readers,
    },
    Case { name: "messages of a channel come to all in one order", words: &[], run: messages::order },
    Case { name: "events of clients that waited", words: EVENTS, run: events::of_waiting },
    Case { name: "events of what expires", words: EVENTS, run: events::of_the_background },
    Case { name: "300,000 subscriptions of one client", words: &[], run: messages::many_subscriptions },
    Case { name: "a subscriber that never reads", words: &[], run: messages::never_reads },
    Case {
        name: "scripts that fail, recurse or want too much",
        words: &["--busy-reply-threshold", "0"],
        run: scripts::errors,
    },
    Case { name: "replies of a deep pipeline stay in order", words: &[], run: connections::deep_pipeline },
];

/// A test that starts servers itself: its name, and what it does.
type Start = (&'static str, fn(&Program) -> Result<()>);

/// Tests that start servers of their own.
const STARTS: &[Start] = &[
    ("a port in use", start::port_in_use),
    ("--io-engine uring where it is forbidden", start::io_uring_forbidden),
    ("a wrong setting names file, line and reason", start::wrong_settings),
    ("a promise that is not kept refuses to start", start::refused_promises),
    ("users: a wrong file or line is named and refuses to start", users::wrong_files),
    ("users: ACL LOAD takes a file or leaves it, ACL SAVE writes what it reads", users::files),
    ("users: 10,000 users, 10,000 rules", users::very_many),
    ("SIGTERM ends it, and the port is free at once", start::stop_and_start_again),
    ("a transaction larger than maxmemory", limits::large_transaction),
    ("contention: 16 threads, one hot key, MSET over all shards, FLUSHALL", contention::hot_key),
    ("contention: concurrent transfers never change the total", contention::bank),
    ("blocking: first waiting, first served", blocking::in_order),
    ("blocking: many keys in many shards", blocking::many_keys),
    ("blocking: chains and rings of BLMOVE", blocking::chains),
    ("blocking: clients that go take nothing with them", blocking::disconnects),
    ("blocking: timeouts, UNBLOCK, other types, no replies wanted", blocking::ends),
    ("blocking: every way by which a key appears", blocking::ways_to_appear),
    ("blocking: streams and their groups", blocking::streams),
    ("blocking: 10,000 clients wait", blocking::ten_thousand),
    ("blocking: every element is popped once (seeded)", blocking::storm),
    ("scripts: transfers over undeclared keys never change the total", scripts::bank),
    ("scripts: whatever loops is killed, with one thread", scripts::killed),
    ("scripts: what has written is not killed, SHUTDOWN NOSAVE works", scripts::not_killed),
    ("tracking: nothing cached is older than what was told (seeded)", tracking::storm),
];

/// Runs the command.
pub fn run(words: &[String]) -> Result<Tally> {
    let (program, filters) = Program::chosen(words)?;
    Ok(run_filtered(&program, &|name| {
        filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()))
    }))
}

/// All of it, as a stage of `cargo xtask test`.
pub fn stage(program: &Program) -> Result<Tally> {
    Ok(run_filtered(program, &|_| true))
}

fn run_filtered(program: &Program, wanted: &dyn Fn(&str) -> bool) -> Tally {
    let mut tally = Tally::default();
    for case in CASES.iter().filter(|case| wanted(case.name)) {
        let started = Instant::now();
        let outcome = with_neighbour(program, case).map_err(|error| error.to_string());
        tally.check(&format!("{} ({:.1} s)", case.name, started.elapsed().as_secs_f64()), outcome, true);
    }
    for (name, test) in STARTS.iter().filter(|(name, _)| wanted(name)) {
        let started = Instant::now();
        let outcome = test(program).map_err(|error| error.to_string());
        tally.check(&format!("{name} ({:.1} s)", started.elapsed().as_secs_f64()), outcome, true);
    }
    tally
}

/// What a test gets.
pub struct Scene {
    pub server: Server,
    pub program: Program,
}

impl Scene {
    /// A connection of its own.
    pub fn client(&self) -> Result<Client> {
        self.server.client()
    }

    /// Resident memory of the server in MiB.
    pub fn rss_mib(&self) -> Result<u64> {
        Ok(process::rss(self.server.pid())? >> 20)
    }

    /// Whether the server is Darter and not a reference, whose own limits differ.
    pub fn is_darter(&self) -> bool {
        matches!(self.program, Program::Darter(_))
    }
}

/// Runs a test while a neighbour talks to the same server; then the server must still be there and answer.
fn with_neighbour(program: &Program, case: &Case) -> Result<()> {
    let server = Server::start(program, case.words)?;
    let address = server.address;
    let password = case.words.iter().position(|w| *w == "--requirepass").map(|at| case.words[at + 1]);
    let mut scene = Scene { server, program: program.clone() };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| neighbour(address, password, &stop));
        let outcome = (case.run)(&mut scene);
        stop.store(true, Ordering::Relaxed);
        let neighbour = neighbour.join().map_err(|_| "the neighbour panicked")?;
        scene.server.check_alive()?;
        outcome?;
        neighbour.map_err(|error| format!("the neighbour: {error}").into())
    })
}

/// Writes and reads its own keys until told to stop; every reply must be its own.
fn neighbour(address: SocketAddr, password: Option<&str>, stop: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(address)?;
    if let Some(password) = password {
        expect(client.call(&["AUTH", password])?, "OK")?;
    }
    let mut turn = 0_u64;
    while !stop.load(Ordering::Relaxed) || turn == 0 {
        turn += 1;
        let (key, value) = (format!("neighbour:{}", turn % 16), format!("value {turn}"));
        expect(client.call(&["SET", &key, &value])?, "OK")?;
        expect(client.call(&["GET", &key])?, &format!("\"{value}\""))?;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(())
}

/// The reply must render as this.
pub fn expect(reply: Value, rendered: &str) -> Result<()> {
    let got = reply.render();
    if got == rendered { Ok(()) } else { Err(format!("expected {rendered}, got {got:.300}").into()) }
}

/// The reply must be an error whose text contains this.
pub fn expect_error(reply: &Value, part: &str) -> Result<()> {
    match reply {
        Value::Error(text) if String::from_utf8_lossy(text).contains(part) => Ok(()),
        other => Err(format!("expected an error with {part:?}, got {:.300}", other.render()).into()),
    }
}
