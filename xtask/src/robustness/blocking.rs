//! Many clients that wait for keys: who is served, in which order, how a wait ends, and what it costs. Not the replies of the commands one
//! by one, which golden files have.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{expect, expect_error};
use crate::bench::load::Random;
use crate::bench::process;
use crate::fail::Result;
use crate::server::{Program, Server};
use crate::wire::{Client, REPLY_TIMEOUT, Value, encode};

const THREADS: &str = "4";

fn start(program: &Program) -> Result<Server> {
    match program {
        Program::Darter(_) => Server::start(program, &["--threads", THREADS, "--maxclients", "12000"]),
        Program::Reference(_) => Server::start(program, &["--maxclients", "12000"]),
    }
}

/// A figure of INFO clients.
fn figure(client: &mut Client, name: &str) -> Result<u64> {
    let info = client.call(&["INFO", "clients"])?.text();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.ok_or(format!("no {name} in INFO"))?.trim().parse()?)
}

/// Returns once this many clients are blocked.
fn until_blocked(client: &mut Client, count: u64) -> Result<()> {
    let started = Instant::now();
    loop {
        let blocked = figure(client, "blocked_clients")?;
        if blocked == count {
            return Ok(());
        }
        if started.elapsed() > REPLY_TIMEOUT {
            return Err(format!("{blocked} clients are blocked, not {count}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Clients that wait with this command, in this order.
fn waiters(server: &Server, boss: &mut Client, count: usize, words: &[&str]) -> Result<Vec<Client>> {
    let before = figure(boss, "blocked_clients")?;
    (1..=count as u64)
        .map(|nth| {
            let mut client = server.client()?;
            client.send(words)?;
            until_blocked(boss, before + nth)?;
            Ok(client)
        })
        .collect()
}

fn popped(key: &str, value: &str) -> String {
    format!("1) \"{key}\"\n2) \"{value}\"")
}

/// First waiting, first served, on whichever thread: one push after another, one push for all, one transaction for all.
pub fn in_order(program: &Program) -> Result<()> {
    const COUNT: usize = 40;
    let server = start(program)?;
    let mut boss = server.client()?;
    let values: Vec<String> = (0..COUNT).map(|n| format!("value {n}")).collect();
    for round in 0..3 {
        let mut clients = waiters(&server, &mut boss, COUNT, &["BLPOP", "queue", "other", "0"])?;
        match round {
            0 => {
                for value in &values {
                    expect(boss.call(&["RPUSH", "queue", value])?, "(integer) 1")?;
                }
            }
            1 => {
                let mut words = vec!["RPUSH", "queue"];
                words.extend(values.iter().map(String::as_str));
                expect(boss.call(&words)?, &format!("(integer) {COUNT}"))?;
            }
            _ => {
                boss.call(&["MULTI"])?;
                for value in &values {
                    boss.call(&["RPUSH", "queue", value])?;
                }
                // Nobody is served before the transaction is over.
                let Value::Array(lengths) = boss.call(&["EXEC"])? else { return Err("EXEC failed".into()) };
                let expected: Vec<Value> = (1..=COUNT as i64).map(Value::Integer).collect();
                if lengths != expected {
                    return Err(format!("lengths inside EXEC: {lengths:?}").into());
                }
            }
        }
        for (client, value) in clients.iter_mut().zip(&values) {
            expect(client.receive()?, &popped("queue", value))?;
        }
        expect(boss.call(&["EXISTS", "queue"])?, "(integer) 0")?;
        until_blocked(&mut boss, 0)?;
    }
    expect(Value::Integer(figure(&mut boss, "total_blocking_keys")? as i64), "(integer) 0")
}

/// Clients that wait for many keys get the first that comes, and only that; what is pipelined behind waits with them.
pub fn many_keys(program: &Program) -> Result<()> {
    const KEYS: usize = 30;
    let server = start(program)?;
    let mut boss = server.client()?;
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key:{n}")).collect();
    let mut words = vec!["BRPOP"];
    words.extend(keys.iter().map(String::as_str));
    words.push("0");
    let mut clients = waiters(&server, &mut boss, KEYS, &words)?;
    expect(Value::Integer(figure(&mut boss, "total_blocking_keys")? as i64), &format!("(integer) {KEYS}"))?;
    for client in &mut clients {
        client.send(&["ECHO", "behind"])?;
    }
    for (client, key) in clients.iter_mut().zip(keys.iter().rev()) {
        expect(boss.call(&["LPUSH", key, "x"])?, "(integer) 1")?;
        expect(client.receive()?, &popped(key, "x"))?;
        expect(client.receive()?, "\"behind\"")?;
    }
    // Two keys in one transaction: one client takes the one that its command names first, the next client the other.
    let mut clients = waiters(&server, &mut boss, 3, &["BLPOP", "a", "b", "0"])?;
    for words in [&["MULTI"][..], &["RPUSH", "b", "1"], &["RPUSH", "a", "2"], &["EXEC"]] {
        boss.call(words)?;
    }
    expect(clients[0].receive()?, &popped("a", "2"))?;
    expect(clients[1].receive()?, &popped("b", "1"))?;
    expect(boss.call(&["DBSIZE"])?, "(integer) 0")?;
    drop(clients);
    until_blocked(&mut boss, 0)
}

/// Chains and rings of BLMOVE over keys in all shards, and an element that runs through them.
pub fn chains(program: &Program) -> Result<()> {
    const LINKS: usize = 60;
    let server = start(program)?;
    let mut boss = server.client()?;
    for ring in [false, true] {
        let name = |n: usize| if ring { format!("ring:{}", n % LINKS) } else { format!("chain:{n}") };
        let mut clients = Vec::new();
        // Backwards, so that each wait is there before the one that leads to it.
        for n in (0..LINKS).rev() {
            let (from, to) = (name(n), name(n + 1));
            clients.extend(waiters(&server, &mut boss, 1, &["BLMOVE", &from, &to, "LEFT", "RIGHT", "0"])?);
        }
        expect(boss.call(&["RPUSH", &name(0), "ball"])?, "(integer) 1")?;
        for client in &mut clients {
            expect(client.receive()?, "\"ball\"")?;
        }
        expect(boss.call(&["LRANGE", &name(LINKS), "0", "-1"])?, "1) \"ball\"")?;
        expect(boss.call(&["DBSIZE"])?, "(integer) 1")?;
        boss.call(&["FLUSHALL"])?;
    }
    // A destination of another type is the client's error, and the element stays.
    boss.call(&["SET", "text", "x"])?;
    let mut clients = waiters(&server, &mut boss, 1, &["BLMOVE", "from", "text", "LEFT", "RIGHT", "0"])?;
    let mut behind = waiters(&server, &mut boss, 1, &["BLPOP", "from", "0"])?;
    boss.call(&["RPUSH", "from", "1"])?;
    expect_error(&clients[0].receive()?, "WRONGTYPE")?;
    expect(behind[0].receive()?, &popped("from", "1"))
}

/// Clients that go while they wait take nothing with them.
pub fn disconnects(program: &Program) -> Result<()> {
    const COUNT: usize = 300;
    let server = start(program)?;
    let mut boss = server.client()?;
    let seed = std::process::id().into();
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut clients = waiters(&server, &mut boss, COUNT, &["BLPOP", "a", "b", "c", "0"])?;
    // Half of them go; some half-closed, as nobody waits for such a client either.
    let mut left = Vec::new();
    let mut half_closed = Vec::new();
    for client in clients.drain(..) {
        match random.below(4) {
            0 => drop(client),
            1 => {
                client.socket().shutdown(std::net::Shutdown::Write)?;
                half_closed.push(client);
            }
            _ => left.push(client),
        }
    }
    until_blocked(&mut boss, left.len() as u64)?;
    for n in 0..COUNT {
        boss.call(&["RPUSH", ["a", "b", "c"][n % 3], &n.to_string()])?;
    }
    let mut seen = HashSet::new();
    for (n, client) in left.iter_mut().enumerate() {
        let expected = popped(["a", "b", "c"][n % 3], &n.to_string());
        expect(client.receive()?, &expected)?;
        seen.insert(expected);
    }
    let mut rest = 0;
    for key in ["a", "b", "c"] {
        let Value::Integer(len) = boss.call(&["LLEN", key])? else { return Err("LLEN failed".into()) };
        rest += len as usize;
    }
    if seen.len() + rest != COUNT {
        return Err(format!("{} were served, {rest} are left, {COUNT} were pushed", seen.len()).into());
    }
    // CLIENT KILL is an end like any other.
    let mut killed = waiters(&server, &mut boss, 1, &["BLPOP", "none", "0"])?;
    let id = blocked_id(&mut boss)?;
    expect(boss.call(&["CLIENT", "KILL", "ID", &id])?, "(integer) 1")?;
    expect(killed[0].receive_or_closed()?, "(closed)")?;
    until_blocked(&mut boss, 0)?;
    expect(Value::Integer(figure(&mut boss, "total_blocking_keys")? as i64), "(integer) 0")
}

/// The id of the only client that is blocked.
fn blocked_id(boss: &mut Client) -> Result<String> {
    let list = boss.call(&["CLIENT", "LIST", "FLAGS", "b"])?.text();
    let id = list.split_whitespace().find_map(|word| word.strip_prefix("id="));
    Ok(id.ok_or(format!("no client is blocked: {list}"))?.to_owned())
}

/// CLIENT UNBLOCK, timeouts, CLIENT REPLY OFF, EXEC, and keys of another type.
pub fn ends(program: &Program) -> Result<()> {
    let server = start(program)?;
    let mut boss = server.client()?;
    for (reason, reply) in [
        (&["ERROR"][..], "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        (&["timeout"], "(nil array)"),
        (&[], "(nil array)"),
    ] {
        let mut clients = waiters(&server, &mut boss, 1, &["BZPOPMIN", "a", "b", "0"])?;
        clients[0].send(&["PING"])?;
        let id = blocked_id(&mut boss)?;
        let mut words = vec!["CLIENT", "UNBLOCK", id.as_str()];
        words.extend(reason);
        expect(boss.call(&words)?, "(integer) 1")?;
        expect(clients[0].receive()?, reply)?;
        expect(clients[0].receive()?, "PONG")?;
        expect(boss.call(&words)?, "(integer) 0")?;
    }
    // A wait that has ended takes nothing.
    expect(boss.call(&["ZADD", "a", "1", "m"])?, "(integer) 1")?;
    expect(boss.call(&["ZCARD", "a"])?, "(integer) 1")?;
    boss.call(&["FLUSHALL"])?;
    let started = Instant::now();
    let mut timed = waiters(&server, &mut boss, 1, &["BLMPOP", "0.25", "2", "x", "y", "LEFT"])?;
    expect(timed[0].receive()?, "(nil array)")?;
    let took = started.elapsed();
    if !(Duration::from_millis(249)..Duration::from_millis(1500)).contains(&took) {
        return Err(format!("a timeout of 250 ms took {took:?}").into());
    }
    expect(boss.call(&["RPUSH", "x", "1"])?, "(integer) 1")?;
    boss.call(&["DEL", "x"])?;
    // Another type leaves a client waiting, and so does a key that comes and goes within a transaction.
    let mut clients = waiters(&server, &mut boss, 1, &["BRPOP", "key", "0"])?;
    for words in [
        &["SET", "key", "x"][..],
        &["DEL", "key"],
        &["ZADD", "key", "1", "m"],
        &["DEL", "key"],
        &["MULTI"],
        &["LPUSH", "key", "v"],
        &["DEL", "key"],
        &["EXEC"],
    ] {
        boss.call(words)?;
    }
    until_blocked(&mut boss, 1)?;
    expect(boss.call(&["LPUSH", "key", "w"])?, "(integer) 1")?;
    expect(clients[0].receive()?, &popped("key", "w"))?;
    // Nobody sees the reply of a client that wants none; but it is served.
    let mut quiet = server.client()?;
    quiet.send(&["CLIENT", "REPLY", "OFF"])?;
    quiet.send(&["BLPOP", "quiet", "0"])?;
    until_blocked(&mut boss, 1)?;
    boss.call(&["RPUSH", "quiet", "x", "y"])?;
    quiet.send(&["CLIENT", "REPLY", "ON"])?;
    expect(quiet.receive()?, "OK")?;
    expect(boss.call(&["LRANGE", "quiet", "0", "-1"])?, "1) \"y\"")
}

/// Every way by which a list can appear serves who waits for it.
pub fn ways_to_appear(program: &Program) -> Result<()> {
    let server = start(program)?;
    let mut boss = server.client()?;
    let ways: &[&[&[&str]]] = &[
        &[&["RPUSH", "tmp", "x"], &["RENAME", "tmp", "key"]],
        &[&["RPUSH", "tmp", "x"], &["RENAMENX", "tmp", "key"]],
        &[&["RPUSH", "tmp", "x"], &["COPY", "tmp", "key"]],
        &[&["SELECT", "1"], &["RPUSH", "key", "x"], &["MOVE", "key", "0"]],
        &[&["SELECT", "1"], &["RPUSH", "key", "x"], &["SWAPDB", "1", "0"]],
        &[&["SELECT", "1"], &["RPUSH", "tmp", "x"], &["COPY", "tmp", "key", "DB", "0"]],
        &[&["RPUSH", "tmp", "x"], &["LMOVE", "tmp", "key", "LEFT", "LEFT"]],
        &[&["RPUSH", "tmp", "x"], &["RPOPLPUSH", "tmp", "key"]],
        &[&["SET", "key", "text"], &["RPUSH", "tmp", "x"], &["RENAME", "tmp", "key"]],
        &[&["SET", "key", "text"], &["RPUSH", "tmp", "x"], &["COPY", "tmp", "key", "REPLACE"]],
    ];
    for way in ways {
        let mut clients = waiters(&server, &mut boss, 1, &["BLPOP", "key", "0"])?;
        for words in *way {
            let reply = boss.call(words)?;
            if reply.is_error() {
                return Err(format!("{words:?}: {}", reply.render()).into());
            }
        }
        let reply = clients[0].receive().map_err(|error| format!("{way:?}: {error}"))?;
        expect(reply, &popped("key", "x")).map_err(|error| format!("{way:?}: {error}"))?;
        boss.call(&["FLUSHALL"])?;
        boss.call(&["SELECT", "0"])?;
    }
    Ok(())
}

/// One stream of a reply with one entry of one field.
fn entry(key: &str, id: &str) -> String {
    format!("1) 1) \"{key}\"\n   2) 1) 1) \"{id}\"\n         2) 1) \"f\"\n            2) \"v\"")
}

/// Readers of streams, all of whom get what comes; consumers of a group, one of whom gets it; what ends their wait.
pub fn streams(program: &Program) -> Result<()> {
    let server = start(program)?;
    let mut boss = server.client()?;
    let add = |boss: &mut Client, key: &str, id: &str| boss.call(&["XADD", key, id, "f", "v"]);
    add(&mut boss, "s", "1-1")?;
    let mut readers =
        waiters(&server, &mut boss, 20, &["XREAD", "BLOCK", "0", "STREAMS", "s", "t", "$", "$"])?;
    let mut late = waiters(&server, &mut boss, 1, &["XREAD", "BLOCK", "0", "STREAMS", "s", "5-5"])?;
    let mut plus = waiters(&server, &mut boss, 1, &["XREAD", "BLOCK", "0", "STREAMS", "u", "+"])?;
    add(&mut boss, "s", "2-1")?;
    for reader in &mut readers {
        expect(reader.receive()?, &entry("s", "2-1"))?;
    }
    // What is not behind the id that was asked for serves nobody, even in a stream that begins again.
    boss.call(&["DEL", "s"])?;
    add(&mut boss, "s", "5-5")?;
    until_blocked(&mut boss, 2)?;
    add(&mut boss, "s", "5-6")?;
    expect(late[0].receive()?, &entry("s", "5-6"))?;
    add(&mut boss, "u", "1-1")?;
    expect(plus[0].receive()?, &entry("u", "1-1"))?;
    // Two streams in one transaction come in one reply.
    let mut both = waiters(&server, &mut boss, 1, &["XREAD", "BLOCK", "0", "STREAMS", "a", "b", "$", "$"])?;
    for words in [&["MULTI"][..], &["XADD", "b", "1-1", "f", "v"], &["XADD", "a", "1-1", "f", "v"], &["EXEC"]]
    {
        boss.call(words)?;
    }
    let Value::Array(found) = both[0].receive()? else { return Err("no array".into()) };
    expect(Value::Integer(found.len() as i64), "(integer) 2")?;
    boss.call(&["FLUSHALL"])?;
    groups(&server, &mut boss)
}

fn groups(server: &Server, boss: &mut Client) -> Result<()> {
    const GROUP: [&str; 6] = ["XGROUP", "CREATE", "g", "group", "$", "MKSTREAM"];
    boss.call(&GROUP)?;
    let mut clients = Vec::new();
    for n in 0..10 {
        let consumer = format!("consumer {n}");
        let words = ["XREADGROUP", "GROUP", "group", &consumer, "BLOCK", "0", "STREAMS", "g", ">"];
        clients.extend(waiters(server, boss, 1, &words)?);
    }
    expect(Value::Integer(figure(boss, "total_blocking_keys_on_nokey")? as i64), "(integer) 1")?;
    for (n, client) in clients.iter_mut().enumerate() {
        let id = format!("{}-0", n + 1);
        boss.call(&["XADD", "g", &id, "f", "v"])?;
        expect(client.receive()?, &entry("g", &id))?;
    }
    until_blocked(boss, 0)?;
    // The stream or its group goes, or becomes something else.
    for (ways, error) in [
        (&[&["DEL", "g"][..]][..], "NOGROUP"),
        (&[&["SET", "g", "text"], &["DEL", "g"]], "WRONGTYPE"),
        (&[&["XGROUP", "DESTROY", "g", "group"], &["DEL", "g"]], "NOGROUP"),
        (&[&["FLUSHALL"]], "NOGROUP"),
        (&[&["RENAME", "g", "h"], &["DEL", "h"]], "NOGROUP"),
        (&[&["PEXPIRE", "g", "5"]], "NOGROUP"),
    ] {
        boss.call(&["DEL", "g"])?;
        boss.call(&GROUP)?;
        let words = ["XREADGROUP", "GROUP", "group", "c", "BLOCK", "0", "STREAMS", "g", ">"];
        let mut clients = waiters(server, boss, 2, &words)?;
        for way in ways {
            boss.call(way)?;
        }
        for client in &mut clients {
            let reply = client.receive().map_err(|problem| format!("{ways:?}: {problem}"))?;
            expect_error(&reply, error).map_err(|problem| format!("{ways:?}: {problem}"))?;
        }
    }
    until_blocked(boss, 0)?;
    expect(Value::Integer(figure(boss, "total_blocking_keys_on_nokey")? as i64), "(integer) 0")
}

/// What 10,000 clients that wait may cost a server that does nothing else, in a second: as much as its idle turns cost without them, and this.
const CPU_MAX: Duration = Duration::from_millis(30);

/// 10,000 clients wait, some with timeouts: no CPU, little memory, and one push serves them all in order.
pub fn ten_thousand(program: &Program) -> Result<()> {
    const COUNT: usize = 10_000;
    let server = start(program)?;
    let mut boss = server.client()?;
    let idle = cpu_of_a_second(&server)?;
    let mut sockets = connect(server.address, COUNT)?;
    let rss_connected = process::rss(server.pid())?;
    for (n, socket) in sockets.iter_mut().enumerate() {
        let mut words = Vec::new();
        let timeout = if n % 2 == 0 { "0" } else { "1000" };
        encode(&["BLPOP", "queue", &format!("own:{n}"), timeout], &mut words);
        socket.write_all(&words)?;
        if n % 100 == 99 {
            until_blocked(&mut boss, n as u64 + 1)?;
        }
    }
    let grown = process::rss(server.pid())?.saturating_sub(rss_connected);
    let waiting = cpu_of_a_second(&server)?;
    println!(
        "10,000 clients wait: {waiting:?} of CPU in a second, {idle:?} without them; {} bytes each more than connected",
        grown / COUNT as u64
    );
    if waiting > idle + CPU_MAX {
        return Err(format!("waiting costs {waiting:?} in a second, idling {idle:?}").into());
    }
    let values: Vec<String> = (0..COUNT).map(|n| n.to_string()).collect();
    let mut words = vec!["RPUSH", "queue"];
    words.extend(values.iter().map(String::as_str));
    let started = Instant::now();
    expect(boss.call(&words)?, &format!("(integer) {COUNT}"))?;
    let pushed = started.elapsed();
    let mut order = Vec::with_capacity(COUNT);
    for socket in &mut sockets {
        let mut buffer = [0; 64];
        let len = socket.read(&mut buffer)?;
        let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
        let value = text.lines().last().ok_or("an empty reply")?.to_owned();
        order.push(value.parse::<usize>()?);
    }
    println!("one push served them in {pushed:?}, the last reply was there after {:?}", started.elapsed());
    // Within each hundred the commands may have come in any order.
    for (hundred, served) in order.chunks(100).enumerate() {
        let mut served = served.to_vec();
        served.sort_unstable();
        if !served.into_iter().eq(hundred * 100..(hundred + 1) * 100) {
            return Err(format!(
                "clients {} to {} were not served in their turn",
                hundred * 100,
                hundred * 100 + 99
            )
            .into());
        }
    }
    until_blocked(&mut boss, 0)?;
    expect(Value::Integer(figure(&mut boss, "clients_in_timeout_table")? as i64), "(integer) 0")?;
    expect(boss.call(&["DBSIZE"])?, "(integer) 0")
}

fn connect(address: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
    (0..count)
        .map(|_| {
            let socket = TcpStream::connect(address)?;
            socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
            Ok(socket)
        })
        .collect()
}

fn cpu_of_a_second(server: &Server) -> Result<Duration> {
    let before = process::cpu_time(server.pid())?;
    std::thread::sleep(Duration::from_secs(1));
    Ok(process::cpu_time(server.pid())?.saturating_sub(before))
}

/// What the clients of the storm have seen.
struct Storm {
    seed: u64,
    deadline: Instant,
    pushed: Mutex<HashSet<String>>,
    taken: Mutex<Vec<String>>,
}

const STORM_KEYS: u64 = 6;

/// Consumers of every kind with short timeouts, producers, transactions, thieves, and one who ends the waits of others: every element is popped once or is left.
pub fn storm(program: &Program) -> Result<()> {
    let server = start(program)?;
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let deadline = Instant::now() + Duration::from_secs(4);
    let storm = Storm { seed, deadline, pushed: Mutex::default(), taken: Mutex::default() };
    let work = |number: u64| {
        let mut client = server.client()?;
        match number {
            0 => storm.unblock(&mut client),
            _ if number.is_multiple_of(2) => storm.produce(&mut client, number),
            _ => storm.consume(&mut client, number),
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..16).map(|number| scope.spawn(move || work(number))).collect();
        let outcomes = threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked")?);
        outcomes.collect::<Result<Vec<()>>>()
    })?;
    let mut boss = server.client()?;
    let mut seen = storm.taken.into_inner().map_err(|_| "panicked")?;
    let served = seen.len();
    for key in 0..STORM_KEYS {
        values_in(&boss.call(&["LRANGE", &format!("key:{key}"), "0", "-1"])?, &mut seen);
    }
    let pushed = storm.pushed.into_inner().map_err(|_| "panicked")?;
    let distinct: HashSet<&String> = seen.iter().collect();
    println!("{} elements pushed, {served} taken", pushed.len());
    if seen.len() != distinct.len() || distinct.len() != pushed.len() {
        let (all, once) = (seen.len(), distinct.len());
        return Err(format!("{} were pushed, {once} seen, {all} with doubles", pushed.len()).into());
    }
    until_blocked(&mut boss, 0)?;
    expect(Value::Integer(figure(&mut boss, "total_blocking_keys")? as i64), "(integer) 0")
}

impl Storm {
    /// A generator of a client's own, and two keys at each call.
    fn keys(random: &mut Random) -> (String, String) {
        let mut key = || format!("key:{}", random.below(STORM_KEYS));
        (key(), key())
    }

    /// Ends waits of others, which may be served at the very moment.
    fn unblock(&self, client: &mut Client) -> Result<()> {
        while Instant::now() < self.deadline {
            let list = client.call(&["CLIENT", "LIST", "FLAGS", "b"])?.text();
            for id in list.split_whitespace().filter_map(|word| word.strip_prefix("id=")) {
                let reply = client.call(&["CLIENT", "UNBLOCK", id])?;
                if !matches!(reply, Value::Integer(0 | 1)) {
                    return Err(reply.render().into());
                }
            }
        }
        Ok(())
    }

    fn produce(&self, client: &mut Client, number: u64) -> Result<()> {
        let mut random = Random(self.seed ^ number << 20);
        let mut serial = 0;
        while Instant::now() < self.deadline {
            let (a, b) = Self::keys(&mut random);
            let mut values = Vec::new();
            for _ in 0..=random.below(3) {
                serial += 1;
                values.push(format!("{number}-{serial}"));
            }
            self.pushed.lock().map_err(|_| "panicked")?.extend(values.iter().cloned());
            let transaction = random.below(3) == 0;
            if transaction {
                client.call(&["MULTI"])?;
            }
            for value in &values {
                client.call(&["RPUSH", if random.below(2) == 0 { &a } else { &b }, value])?;
            }
            if transaction && client.call(&["EXEC"])?.is_error() {
                return Err("EXEC failed".into());
            }
        }
        Ok(())
    }

    fn consume(&self, client: &mut Client, number: u64) -> Result<()> {
        let mut random = Random(self.seed ^ number << 20);
        while Instant::now() < self.deadline {
            let (a, b) = Self::keys(&mut random);
            let reply = match random.below(5) {
                0 => client.call(&["BLPOP", &a, &b, "0.01"])?,
                1 => client.call(&["BRPOP", &b, "0.003"])?,
                2 => client.call(&["BLMPOP", "0.01", "2", &a, &b, "RIGHT", "COUNT", "2"])?,
                3 => client.call(&["BLMOVE", &a, &b, "LEFT", "RIGHT", "0.01"])?,
                _ => client.call(&["LPOP", &a, "1"])?,
            };
            if reply.is_error() {
                return Err(reply.render().into());
            }
            // What BLMOVE moved, a bulk, is not taken.
            if matches!(reply, Value::Array(_)) {
                values_in(&reply, &mut *self.taken.lock().map_err(|_| "panicked")?);
            }
        }
        Ok(())
    }
}

/// The elements (`1-23`) in a reply.
fn values_in(reply: &Value, found: &mut Vec<String>) {
    match reply {
        Value::Bulk(bytes) if bytes.contains(&b'-') => {
            found.push(String::from_utf8_lossy(bytes).into_owned())
        }
        other => other.items().into_iter().for_each(|item| values_in(item, found)),
    }
}
