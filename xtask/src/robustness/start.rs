//! Starts that cannot succeed say why and end with code 1; ends are clean.

use std::process::Command;
use std::time::Duration;

use super::expect;
use crate::fail::Result;
use crate::server::{Program, Server, free_port, scratch_dir};
use crate::shell;
use crate::wire::Client;

/// How long a server may take to find out that it cannot start, or to end.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs a server that is to end by itself; its exit code and everything it printed.
fn ends(command: &mut Command) -> Result<(Option<i32>, String)> {
    let dir = scratch_dir("start")?;
    let log = std::fs::File::create(dir.join("log"))?;
    command.current_dir(&dir).stdout(log.try_clone()?).stderr(log);
    let mut child = command.stdin(std::process::Stdio::null()).spawn()?;
    let started = std::time::Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(format!("{} started, or hangs", shell::line(command)).into());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = std::fs::read_to_string(dir.join("log"))?;
    std::fs::remove_dir_all(dir)?;
    Ok((status.code(), text))
}

/// The server must end with code 1 and say all of these.
pub(super) fn refuses(program: &Program, words: &[&str], says: &[&str]) -> Result<()> {
    let mut command = Command::new(program.path());
    command.args(words);
    let (code, text) = ends(&mut command)?;
    if code != Some(1) {
        return Err(format!("{}: ended with {code:?}\n{text}", words.join(" ")).into());
    }
    match says.iter().find(|part| !text.to_lowercase().contains(&part.to_lowercase())) {
        None => Ok(()),
        Some(part) => Err(format!("{}: does not say {part:?} but:\n{text}", words.join(" ")).into()),
    }
}

/// A second server on a port.
pub fn port_in_use(program: &Program) -> Result<()> {
    let words: &[&str] = &[];
    let mut server = Server::start(program, words)?;
    let port = server.address.port().to_string();
    refuses(program, &["--port", &port, "--bind", "127.0.0.1"], &["in use", &port])?;
    server.check_alive()?;
    expect(server.client()?.call(&["PING"])?, "PONG")
}

/// Where the kernel does not let us, `uring` says so and ends; `auto` says so and goes on with epoll.
pub fn io_uring_forbidden(program: &Program) -> Result<()> {
    if matches!(program, Program::Reference(_)) {
        return Ok(());
    }
    let without = shell::root().join("tests/robustness/without_io_uring.py");
    let port = free_port()?.to_string();
    let mut command = Command::new("python3");
    command.arg(&without).arg(program.path()).args(["--port", &port, "--io-engine", "uring"]);
    let (code, text) = ends(&mut command)?;
    if code != Some(1) || !text.contains("uring") {
        return Err(format!("--io-engine uring ended with {code:?}:\n{text}").into());
    }
    let wrapper = scratch_dir("without-io-uring")?.join("darter");
    let script =
        format!("#!/bin/sh\nexec python3 '{}' '{}' \"$@\"\n", without.display(), program.path().display());
    std::fs::write(&wrapper, script)?;
    shell::run(Command::new("chmod").arg("+x").arg(&wrapper))?;
    let server = Server::start(&Program::Darter(wrapper), &["--io-engine", "auto"])?;
    expect(server.client()?.call(&["PING"])?, "PONG")?;
    let log = server.log();
    let says = log.lines().any(|line| line.contains("epoll") && line.contains("uring"));
    if says { Ok(()) } else { Err(format!("no line says that epoll is used and why:\n{log}").into()) }
}

/// Mistakes in the configuration.
pub fn wrong_settings(program: &Program) -> Result<()> {
    let dir = scratch_dir("wrong-settings")?;
    let file = dir.join("bad.conf");
    for (text, line, says) in [
        ("# a comment\nmaxmemory much\n", "2", "maxmemory"),
        ("port 0\n\nno-such-setting 1\n", "3", "no-such-setting"),
        ("maxmemory-policy sometimes\n", "1", "maxmemory-policy"),
        ("timeout 5 6\n", "1", "timeout"),
        ("requirepass \"open\n", "1", "requirepass"),
        ("port 99999\n", "1", "port"),
    ] {
        std::fs::write(&file, text)?;
        let path = file.to_string_lossy().into_owned();
        // A reference words its errors differently; only Darter must name the file.
        let darter = matches!(program, Program::Darter(_));
        let named = if darter { &*path } else { "" };
        refuses(program, &[&path], &[says, line, named])?;
    }
    refuses(program, &["--maxmemory", "much"], &["maxmemory"])?;
    refuses(program, &["--no-such-setting", "1"], &["no-such-setting"])?;
    refuses(program, &["no-such-file.conf"], &["no-such-file.conf"])
}

/// What Darter does not keep yet it does not promise.
pub fn refused_promises(program: &Program) -> Result<()> {
    if matches!(program, Program::Reference(_)) {
        return Ok(());
    }
    for (name, value) in [
        ("appendonly", "yes"),
        ("tls-port", "6380"),
        ("cluster-enabled", "yes"),
        ("replicaof", "127.0.0.1 6380"),
    ] {
        refuses(program, &["--port", "0", &format!("--{name}"), value], &[name])?;
    }
    Ok(())
}

/// A clean end, and a start on the same port right after.
pub fn stop_and_start_again(program: &Program) -> Result<()> {
    let words: &[&str] = &[];
    let mut server = Server::start(program, words)?;
    let mut clients = (0..20).map(|_| server.client()).collect::<Result<Vec<Client>>>()?;
    for client in &mut clients {
        expect(client.call(&["SET", "a", "1"])?, "OK")?;
    }
    shell::run(Command::new("kill").args(["-TERM", &server.pid().to_string()]))?;
    let code = server.wait_for_end(LIMIT)?;
    if code != Some(0) {
        return Err(format!("ended with {code:?}:\n{}", server.log()).into());
    }
    let port = server.address.port().to_string();
    let mut command = Command::new(program.path());
    command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]).current_dir(scratch_dir("again")?);
    let mut again = command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn()?;
    let started = std::time::Instant::now();
    let answered = loop {
        match Client::connect(server.address).and_then(|mut client| client.call(&["PING"])) {
            Ok(reply) => break expect(reply, "PONG"),
            Err(error) if started.elapsed() > LIMIT => break Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    again.kill()?;
    again.wait()?;
    answered
}
