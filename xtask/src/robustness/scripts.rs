//! Scripts that loop, recurse, allocate without end, fail in the middle, or collide with one another over keys that they did not declare.

use std::time::{Duration, Instant};

use super::contention::{load, pick, start};
use super::{Scene, expect};
use crate::fail::Result;
use crate::server::{Program, Server};
use crate::wire::{Client, Value};

/// How long a server may take to notice anything.
const PATIENCE: Duration = Duration::from_secs(20);

const SLOW: &[&str] = &["--threads", "1", "--busy-reply-threshold", "50"];

/// Asks until the reply begins with this.
fn until(client: &mut Client, words: &[&str], wanted: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let reply = client.call(words)?.render();
        if reply.starts_with(wanted) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("{words:?} was answered {reply}, not {wanted}").into());
        }
    }
}

/// With one thread: clients are answered BUSY, new ones may come, and the script is killed inside everything that catches errors.
pub fn killed(program: &Program) -> Result<()> {
    let mut server = Server::start(program, SLOW)?;
    let mut other = server.client()?;
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() pcall(f) return f() end return f()",
        "while true do redis.call('get', 'nokey') end",
        "while true do redis.pcall('nosuch') end",
    ] {
        let mut runner = server.client()?;
        runner.send(&["EVAL", script, "0"])?;
        until(&mut other, &["PING"], "(error) BUSY")?;
        let mut newcomer = server.client()?;
        if !newcomer.call(&["GET", "x"])?.render().starts_with("(error) BUSY") {
            return Err(format!("a newcomer was served while this ran: {script}").into());
        }
        expect(newcomer.call(&["SCRIPT", "KILL"])?, "OK")?;
        if !runner.receive()?.is_error() {
            return Err(format!("not killed: {script}").into());
        }
        expect(runner.call(&["EVAL", "return 1", "0"])?, "(integer) 1")?;
        until(&mut other, &["PING"], "PONG")?;
    }
    server.check_alive()
}

/// A script that has written is not killed; SHUTDOWN NOSAVE ends the server all the same.
pub fn not_killed(program: &Program) -> Result<()> {
    let mut server = Server::start(program, SLOW)?;
    let mut other = server.client()?;
    let mut runner = server.client()?;
    runner.send(&["EVAL", "redis.call('set', 'x', '1') while true do end", "0"])?;
    until(&mut other, &["PING"], "(error) BUSY")?;
    let reply = other.call(&["SCRIPT", "KILL"])?.render();
    if !reply.starts_with("(error) UNKILLABLE") {
        return Err(format!("SCRIPT KILL: {reply}").into());
    }
    if !other.call(&["SHUTDOWN"])?.render().starts_with("(error) BUSY") {
        return Err("SHUTDOWN without NOSAVE was not refused".into());
    }
    other.send(&["SHUTDOWN", "NOSAVE"])?;
    match server.wait_for_end(PATIENCE)? {
        Some(0) => Ok(()),
        other => Err(format!("SHUTDOWN NOSAVE: {other:?}").into()),
    }
}

/// What goes wrong inside is an error, and leaves the server and the next script as they were.
pub fn errors(scene: &mut Scene) -> Result<()> {
    let mut client = scene.client()?;
    for script in [
        "local function f() return f() + 1 end return f()",
        "error('boom')",
        "error({})",
        "return {err = 'MY error'}",
        "return redis.call('nosuch')",
        "return redis.call('set')",
        "return redis.call('subscribe', 'x')",
        "redis.call('set', 'a', '1') redis.call('lpush', 'a', 'x')",
        "x = 1",
        "redis.call = nil",
        "string.rep = nil",
        "return loadstring('\\27Lua')()",
        "return io.open('/etc/passwd')",
        "return os.execute('true')",
        "return require('os')",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 100000000 do t[i] = {i, i, i, i, i, i, i, i, i, i, i, i} end",
        "return redis.sha1hex()",
        "return unpack({}, 1, 100000000)",
        "return cjson",
        "return",
    ] {
        let reply = client.call(&["EVAL", script, "0"]).map_err(|error| format!("{script}: {error}"))?;
        let harmless = ["return", "return cjson"].contains(&script);
        if !harmless && !reply.is_error() {
            return Err(format!("{script}: {:.200}", reply.render()).into());
        }
        expect(client.call(&["EVAL", "return #KEYS + #ARGV", "1", "a", "b"])?, "(integer) 2")?;
    }
    let deep = format!("return {}1{}", "{".repeat(7), "}".repeat(7));
    client.call(&["EVAL", &deep, "0"])?;
    let huge = format!("return #'{}'", "x".repeat(64 << 20));
    expect(client.call(&["EVAL", &huge, "0"])?, &format!("(integer) {}", 64 << 20))?;
    expect(
        client.call(&["EVAL_RO", "return redis.pcall('set', 'a', 'b')['err'] ~= nil", "0"])?,
        "(integer) 1",
    )
}

/// Money moves between accounts that scripts choose themselves; some of them write to a large list, too. Whoever adds up all accounts, in a
/// script, in EXEC or by MGET, finds the same sum.
pub fn bank(program: &Program) -> Result<()> {
    const ACCOUNTS: u64 = 48;
    const EACH: i64 = 1000;
    const TRANSFER: &str = "local from, to = 'account:' .. ARGV[1], 'account:' .. ARGV[2] redis.call('decrby', from, ARGV[3]) \
                            redis.call('incrby', to, ARGV[3]) return redis.call('get', from)";
    const NOTED: &str = "redis.call('decrby', 'account:' .. ARGV[1], 1) redis.call('lpush', 'log:' .. ARGV[1] % 3, string.rep('x', 200)) \
                         redis.call('incrby', 'account:' .. ARGV[2], 1) return redis.call('ltrim', 'log:' .. ARGV[1] % 3, 0, 500)";
    const SUM: &str = "local sum = 0 for n = 0, ARGV[1] - 1 do sum = sum + redis.call('get', 'account:' .. n) end return sum";
    let mut server = start(program)?;
    let accounts: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
    let mut opener = server.client()?;
    for account in &accounts {
        expect(opener.call(&["SET", account, &EACH.to_string()])?, "OK")?;
    }
    let count = ACCOUNTS.to_string();
    let total = format!("(integer) {}", EACH * ACCOUNTS as i64);
    let all: Vec<&str> = std::iter::once("MGET").chain(accounts.iter().map(String::as_str)).collect();
    let turns = load(server.address, |_, client, random| {
        let (from, to) = (random.below(ACCOUNTS).to_string(), random.below(ACCOUNTS).to_string());
        match random.below(10) {
            0 => expect(client.call(&["EVAL", SUM, "0", &count])?, &total),
            1 => {
                let reply = client.call(&all)?;
                let sum: i64 = reply.items().iter().filter_map(|item| item.text().parse::<i64>().ok()).sum();
                expect(Value::Integer(sum), &total)
            }
            2 => {
                client.call(&["MULTI"])?;
                client.call(&["DECRBY", pick(random, &accounts), "5"])?;
                client.call(&["EVAL", TRANSFER, "0", &from, &to, "3"])?;
                client.call(&["INCRBY", pick(random, &accounts), "5"])?;
                client.call(&["EVAL", SUM, "0", &count])?;
                let reply = client.call(&["EXEC"])?;
                match reply.items().last() {
                    Some(sum) if sum.render() == total => Ok(()),
                    _ => Err(format!("EXEC: {}", reply.render()).into()),
                }
            }
            3 => expect(client.call(&["EVAL", NOTED, "0", &from, &to])?, "OK"),
            _ => {
                // Some declare one of the two keys.
                let account = format!("account:{from}");
                let amount = random.below(50).to_string();
                let reply = if random.below(2) == 0 {
                    client.call(&["EVAL", TRANSFER, "0", &from, &to, &amount])?
                } else {
                    client.call(&["EVAL", TRANSFER, "1", &account, &from, &to, &amount])?
                };
                if reply.is_error() { Err(reply.render().into()) } else { Ok(()) }
            }
        }
    })?;
    server.check_alive()?;
    expect(opener.call(&["EVAL", SUM, "0", &count])?, &total)?;
    if turns < 100 { Err(format!("only {turns} turns: it nearly stands still").into()) } else { Ok(()) }
}
