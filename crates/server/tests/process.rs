//! The binary as an operator meets it: arguments, exit codes, log, signals, files that come and go.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

fn darter() -> Command {
    Command::new(env!("CARGO_BIN_EXE_darter"))
}

/// Runs to the end; for what must not start a server.
fn run(words: &[&str]) -> Output {
    darter().args(words).stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A port that was free a moment ago.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("darter-process-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server; ended when dropped.
struct Server {
    process: Child,
    log: BufReader<ChildStdout>,
}

impl Server {
    /// Starts and waits until clients may come. Also gives the log up to then.
    fn start(command: &mut Command) -> (Self, String) {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stdout.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("Ready to accept connections") {
            assert_ne!(log.read_line(&mut seen).unwrap(), 0, "the server ended: {seen}");
        }
        (Self { process, log }, seen)
    }

    fn signal(&self, name: &str) {
        let status =
            Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for the end. Gives the exit code and the rest of the log.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.process.wait().unwrap().code(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ask(port: &str, line: &str) -> String {
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    client.write_all(line.as_bytes()).unwrap();
    let mut reply = String::new();
    BufReader::new(client).read_line(&mut reply).unwrap();
    reply
}

#[test]
fn version_and_help() {
    let output = run(&["--version"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Darter server v=") && text.ends_with('\n'), "{text}");
    assert_eq!(run(&["-v"]).status.code(), Some(0));
    let help = run(&["--help"]);
    assert!(String::from_utf8(help.stdout).unwrap().starts_with("Usage: darter"));
}

#[test]
fn what_cannot_be_obeyed_exits_with_one_and_a_reason() {
    for (words, reason) in [
        (["--port", "x"], "argument couldn't be parsed into an integer"),
        (["--nonsense", "1"], "Bad directive or wrong number of arguments"),
        (["--appendonly", "yes"], "Darter persists nothing yet: only 'no' is accepted"),
        (["--port", "0"], "Configured to not listen anywhere, exiting."),
        (
            ["--logfile", "/nonexistent/log"],
            "Can't open the log file '/nonexistent/log': No such file or directory",
        ),
    ] {
        let output = run(&words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert_eq!(stderr(&output).lines().last(), Some(reason), "{words:?}");
    }
}

#[test]
fn a_taken_port_is_one_clear_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["--port", &port, "--bind", "127.0.0.1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), format!("Could not listen on 127.0.0.1:{port}: Address already in use\n"));
}

#[test]
fn a_server_stops_cleanly_and_starts_again_on_its_port() {
    let dir = Scratch::new("stop");
    let port = free_port();
    let (pidfile, socket) = (dir.path("darter.pid"), dir.path("darter.sock"));
    for signal in ["TERM", "INT"] {
        let mut command = darter();
        command.args(["--port", &port, "--bind", "127.0.0.1", "-::1", "--pidfile", &pidfile]);
        let (server, log) = Server::start(command.args(["--unixsocket", &socket, "--io-threads", "3"]));
        assert!(log.contains("Nothing is saved to disk"), "{log}");
        assert!(log.contains("'io-threads' (command line) tunes Valkey's internals"), "{log}");
        let pid = std::fs::read_to_string(&pidfile).unwrap();
        assert_eq!(pid.trim(), server.process.id().to_string());
        // An open connection must not hold the port against the next start.
        let client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        server.signal("HUP");
        assert_eq!(ask(&port, "PING\r\n"), "+PONG\r\n", "SIGHUP is ignored");
        server.signal(signal);
        let (code, rest) = server.end();
        assert_eq!(code, Some(0), "{rest}");
        assert!(rest.contains(&format!("Received SIG{signal}, scheduling shutdown")), "{rest}");
        assert!(!Path::new(&pidfile).exists() && !Path::new(&socket).exists());
        drop(client);
    }
}

#[test]
fn shutdown_sends_what_is_written_and_frees_the_port_first() {
    let port = free_port();
    let words = ["--port", &port, "--bind", "127.0.0.1", "--threads", "3"];
    for words_of_end in ["SHUTDOWN", "shutdown nosave now", "SHUTDOWN SAVE FORCE"] {
        let (server, _) = Server::start(darter().args(words));
        for (line, error) in [
            ("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n"),
            ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error\r\n"),
            ("SHUTDOWN ABORT NOW", "-ERR syntax error\r\n"),
            ("SHUTDOWN NOW LATER", "-ERR syntax error\r\n"),
        ] {
            assert_eq!(ask(&port, &format!("{line}\r\n")), error);
        }
        assert_eq!(ask(&port, "SHUTDOWN SAVE\r\n"), "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        let mut idle = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        // Far more than the socket's buffers hold, unread until the server is about to end.
        let gets = "GET a\r\n".repeat(16);
        client.write_all(format!("SETRANGE a 1048575 v\r\n{gets}{words_of_end}\r\n").as_bytes()).unwrap();
        let mut replies = Vec::new();
        client.read_to_end(&mut replies).unwrap();
        let reply_bytes = b"$1048576\r\n".len() + 1_048_576 + b"\r\n".len();
        assert_eq!(replies.len(), b":1048576\r\n".len() + 16 * reply_bytes, "{words_of_end}");
        // Its connection ended, so the port is free, though the process may still be there.
        drop(TcpListener::bind(format!("127.0.0.1:{port}")).unwrap());
        assert_eq!(idle.read(&mut [0; 8]).unwrap(), 0);
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("User requested shutdown...") && log.contains("bye bye"), "{log}");
    }
}

#[test]
fn debug_is_for_those_who_may() {
    for (access, allowed) in [("no", false), ("local", true), ("yes", true)] {
        let port = free_port();
        let words = ["--port", &port, "--bind", "127.0.0.1", "--enable-debug-command", access];
        let (_server, _) = Server::start(darter().args(words));
        let reply = ask(&port, "DEBUG SLEEP 0\r\n");
        assert_eq!(reply == "+OK\r\n", allowed, "{access}: {reply}");
        assert_eq!(reply.starts_with("-ERR DEBUG command not allowed. If"), !allowed, "{access}: {reply}");
    }
}

#[test]
fn a_daemon_leaves_its_starter_at_once() {
    let dir = Scratch::new("daemon");
    let port = free_port();
    let (pidfile, logfile) = (dir.path("pid"), dir.path("log"));
    let words = ["--port", &port, "--bind", "127.0.0.1", "--daemonize", "yes", "--pidfile", &pidfile];
    let status = darter().args(words).args(["--logfile", &logfile]).status().unwrap();
    assert!(status.success());
    // The listener was opened before the starter was left, so this waits for the daemon and needs no retry.
    assert_eq!(ask(&port, "PING\r\n"), "+PONG\r\n");
    let pid = std::fs::read_to_string(&pidfile).unwrap();
    assert!(std::fs::read_to_string(&logfile).unwrap().contains("just started"));
    assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
    while Path::new(&pidfile).exists() {
        std::thread::yield_now();
    }
}

#[test]
fn systemd_is_told() {
    let dir = Scratch::new("systemd");
    let path = dir.path("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    let port = free_port();
    let words = ["--port", &port, "--bind", "127.0.0.1", "--supervised", "systemd", "--daemonize", "yes"];
    let (server, _log) = Server::start(darter().args(words).env("NOTIFY_SOCKET", &path));
    let mut buffer = [0; 256];
    let len = systemd.recv(&mut buffer).unwrap();
    assert!(String::from_utf8_lossy(&buffer[..len]).contains("READY=1\n"));
    server.signal("TERM");
    let len = systemd.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"STOPPING=1");
    assert_eq!(server.end().0, Some(0));
}
