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
    let error = format!("Could not listen on 127.0.0.1:{port}: Address already in use\n");
    assert_eq!(stderr(&output), error);
    // Whoever looks for the reason looks into the log file, too.
    let dir = Scratch::new("taken");
    let log = dir.path("log");
    let output = run(&["--port", &port, "--bind", "127.0.0.1", "--logfile", &log]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), error);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.lines().count() == 1 && logged.ends_with(&format!(" # {error}")), "{logged}");
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

/// `timeout` and some supervisors send SIGTERM to the process and then to its group: the second one ended it at once, with code 1, with
/// its socket and pid file left behind.
#[test]
fn a_second_sigterm_changes_nothing() {
    let dir = Scratch::new("terms");
    let port = free_port();
    let (pidfile, socket) = (dir.path("darter.pid"), dir.path("darter.sock"));
    let mut command = darter();
    command.args(["--port", &port, "--bind", "127.0.0.1", "--pidfile", &pidfile, "--unixsocket", &socket]);
    let (server, _) = Server::start(&mut command);
    // Unread replies keep the server from ending before the second signal is there.
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    client.write_all(format!("SETRANGE a 1048575 v\r\n{}", "GET a\r\n".repeat(16)).as_bytes()).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 1);
    server.signal("TERM");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("bye bye") && !log.contains("You insist"), "{log}");
    assert!(!Path::new(&pidfile).exists() && !Path::new(&socket).exists());
}

/// Sends lines on one connection and gives the first `replies` lines of the answers.
fn converse(port: &str, lines: &str, replies: usize) -> Vec<String> {
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    client.write_all(lines.as_bytes()).unwrap();
    BufReader::new(client).lines().take(replies).map(Result::unwrap).collect()
}

#[test]
fn a_killed_populate_ends() {
    let port = free_port();
    let words = ["--port", &port, "--bind", "127.0.0.1", "--enable-debug-command", "yes", "--threads", "2"];
    let (_server, _) = Server::start(darter().args(words));
    let mut populating = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    populating.write_all(b"CLIENT ID\r\nDEBUG POPULATE 9000000000000 p 8\r\n").unwrap();
    let mut id = String::new();
    BufReader::new(&populating).read_line(&mut id).unwrap();
    let id = id.trim().trim_start_matches(':');
    // Others are served meanwhile: they see the keys come.
    while ask(&port, "DBSIZE\r\n") == ":0\r\n" {}
    assert_eq!(ask(&port, &format!("CLIENT KILL ID {id}\r\n")), ":1\r\n");
    assert_eq!(populating.read(&mut [0; 8]).unwrap(), 0);
    // A question of every thread is answered between two slices, so that after some of them none is left.
    let questions = "SLOWLOG LEN\r\n".repeat(4) + "DBSIZE\r\nFLUSHALL SYNC\r\nSLOWLOG LEN\r\nDBSIZE\r\n";
    assert_eq!(converse(&port, &questions, 8).last().map(String::as_str), Some(":0"));
}

#[test]
fn populate_makes_every_type() {
    let port = free_port();
    let words = ["--port", &port, "--bind", "127.0.0.1", "--enable-debug-command", "yes", "--threads", "2"];
    let (_server, _) = Server::start(darter().args(words));
    assert_eq!(ask(&port, "SET hash:1 x\r\n"), "+OK\r\n");
    for (kind, count) in
        [("list", "LLEN"), ("set", "SCARD"), ("hash", "HLEN"), ("zset", "ZCARD"), ("stream", "XLEN")]
    {
        let populate = format!("DEBUG POPULATE 40 {kind} 24 TYPE {kind} ELEMENTS 1000 EXPIRE 1000 2000\r\n");
        assert_eq!(ask(&port, &populate), "+OK\r\n");
        assert_eq!(ask(&port, &format!("TYPE {kind}:39\r\n")), format!("+{kind}\r\n"));
        for number in [0, 17, 39] {
            assert_eq!(ask(&port, &format!("{count} {kind}:{number}\r\n")), ":1000\r\n", "{kind}");
        }
        let left = ask(&port, &format!("TTL {kind}:7\r\n"));
        let left: i64 = left.trim().trim_start_matches(':').parse().unwrap();
        assert!((900..=2000).contains(&left), "{kind}: {left}");
    }
    // What exists stays.
    assert_eq!(ask(&port, "STRLEN hash:1\r\n"), ":1\r\n");
    assert_eq!(ask(&port, "STRLEN hash:2\r\n").get(..10), Some("-WRONGTYPE"));
    assert_eq!(ask(&port, "DBSIZE\r\n"), ":200\r\n");
    let full = "CONFIG SET maxmemory 1\r\nDEBUG POPULATE 1 more TYPE set\r\n";
    let replies = converse(&port, full, 2);
    assert!(replies[1].starts_with("-OOM "), "{replies:?}");
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

/// One client that speaks words and reads reply lines.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(port: &str) -> Self {
        Self(BufReader::new(TcpStream::connect(format!("127.0.0.1:{port}")).unwrap()))
    }

    /// The whole reply, line ends and all.
    fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> String {
        let mut text = String::new();
        self.0.read_line(&mut text).unwrap();
        if text.is_empty() {
            // The connection was closed.
            return text;
        }
        let count: i64 = text[1..].trim().parse().unwrap_or(0);
        match text.as_bytes()[0] {
            b'$' if count >= 0 => {
                let mut bytes = vec![0; usize::try_from(count).unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
            b'*' => (0..count).for_each(|_| text.push_str(&self.reply())),
            _ => {}
        }
        text
    }
}

#[test]
fn port_and_bind_change_while_clients_stay() {
    for engine in ["auto", "epoll"] {
        let (port, other) = (free_port(), free_port());
        let words = ["--port", &port, "--bind", "127.0.0.1", "--threads", "3", "--io-engine", engine];
        let (server, _log) = Server::start(darter().args(words));
        let mut client = Client::new(&port);
        assert_eq!(client.ask(&format!("CONFIG SET port {other} timeout 100")), "+OK\r\n");
        assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "nobody listens at the old port");
        // Threads serve connections in turn: all of them have the new settings.
        for _ in 0..6 {
            let mut new = Client::new(&other);
            assert_eq!(new.ask("CONFIG GET timeout"), "*2\r\n$7\r\ntimeout\r\n$3\r\n100\r\n");
        }
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = taken.local_addr().unwrap().port();
        let refused = client.ask(&format!("CONFIG SET port {taken}"));
        assert!(refused.contains("Unable to listen on this port"), "{refused}");
        let refused = client.ask("CONFIG SET bind 192.0.2.1");
        assert!(refused.contains("Failed to bind to specified addresses."), "{refused}");
        assert_eq!(Client::new(&other).ask("PING"), "+PONG\r\n", "it still listens where it did");
        assert_eq!(client.ask("CONFIG SET bind \"*\""), "+OK\r\n");
        assert_eq!(client.ask("CONFIG SET bind \"127.0.0.1\""), "+OK\r\n");
        assert_eq!(Client::new(&other).ask("PING"), "+PONG\r\n");
        assert_eq!(client.ask("SHUTDOWN NOSAVE"), "");
        assert_eq!(server.end().0, Some(0));
    }
}

/// What ended a server whose standard error nobody sees stood nowhere.
#[test]
fn a_panic_is_in_the_log_file() {
    let dir = Scratch::new("panic");
    let (port, log) = (free_port(), dir.path("log"));
    let script = "ulimit -v 400000; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_darter")]);
    command.args(["--port", &port, "--bind", "127.0.0.1", "--threads", "1", "--logfile", &log]);
    let mut server = command.env_remove("RUST_BACKTRACE").stderr(Stdio::null()).spawn().unwrap();
    let mut client = loop {
        match TcpStream::connect(format!("127.0.0.1:{port}")) {
            Ok(client) => break client,
            Err(_) => assert!(server.try_wait().unwrap().is_none(), "it does not start"),
        }
    };
    // More than the address space that it may have.
    client.write_all(b"SETRANGE a 500000000 x\r\n").unwrap();
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    assert!(!server.wait().unwrap().success());
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("# Darter ") && log.contains("ends: thread 'main' panicked at"), "{log}");
    assert!(log.contains("out of memory"), "{log}");
}

/// Both settings were accepted and shown, but HELLO said the same as without them.
#[test]
fn hello_tells_what_settings_make_of_the_server() {
    let port = free_port();
    let (_server, _) = Server::start(darter().args(["--port", &port, "--bind", "127.0.0.1"]));
    let lines = "HELLO\r\nCONFIG SET availability-zone eu-1 extended-redis-compatibility yes\r\nHELLO\r\n";
    let told = converse(&port, lines, 26 + 1 + 30).join(" ");
    let (before, after) = told.split_once("+OK").unwrap();
    assert!(before.starts_with("*14 $6 server $6 valkey $7 version "), "{before}");
    assert!(after.starts_with(" *16 $6 server $5 redis $7 version $5 7.2.4 "), "{after}");
    assert!(after.ends_with(" $17 availability_zone $4 eu-1"), "{after}");
}

#[test]
fn two_clients_who_set_at_once_leave_all_threads_the_same() {
    let port = free_port();
    let words = ["--port", &port, "--bind", "127.0.0.1", "--threads", "4"];
    let (server, _log) = Server::start(darter().args(words));
    let setters: Vec<_> = (0..2)
        .map(|setter| {
            let mut client = Client::new(&port);
            std::thread::spawn(move || {
                for turn in 0..200 {
                    let value = turn * 2 + setter;
                    assert_eq!(client.ask(&format!("CONFIG SET timeout {}", 1000 + value)), "+OK\r\n");
                }
            })
        })
        .collect();
    setters.into_iter().for_each(|setter| setter.join().unwrap());
    let mut clients: Vec<Client> = (0..8).map(|_| Client::new(&port)).collect();
    let seen: Vec<String> = clients.iter_mut().map(|client| client.ask("CONFIG GET timeout")).collect();
    assert!(seen.iter().all(|text| *text == seen[0]), "{seen:?}");
    drop(server);
}

#[test]
fn statistics_are_of_all_threads() {
    let port = free_port();
    let words = ["--port", &port, "--bind", "127.0.0.1", "--threads", "4", "--enable-debug-command", "local"];
    let (server, _log) = Server::start(darter().args(words).args(["--slowlog-log-slower-than", "5000"]));
    let mut clients: Vec<Client> = (0..8).map(|_| Client::new(&port)).collect();
    for client in &mut clients {
        assert_eq!(client.ask("SET a 1 EX 100"), "+OK\r\n");
        assert_eq!(client.ask("DEBUG SLEEP 0.01"), "+OK\r\n");
        assert!(client.ask("INCR").starts_with("-ERR"));
        assert_eq!(
            client.ask("MULTI") + &client.ask("INCR a") + &client.ask("NOSUCH a x"),
            "+OK\r\n+QUEUED\r\n-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'x' \r\n"
        );
        assert!(client.ask("EXEC").starts_with("-EXECABORT"));
    }
    let mut client = Client::new(&port);
    assert_eq!(client.ask("SLOWLOG LEN"), ":8\r\n");
    let numbers: Vec<String> =
        client.ask("SLOWLOG GET").lines().skip(2).step_by(12).map(str::to_owned).collect();
    assert_eq!(numbers.first().map(String::as_str), Some(":7"), "the latest of all threads comes first");
    let stats = client.ask("INFO commandstats");
    assert!(stats.contains("cmdstat_set:calls=8,"), "{stats}");
    assert!(
        stats.contains("cmdstat_incr:calls=0,usec=0,usec_per_call=0.00,rejected_calls=8,failed_calls=0"),
        "{stats}"
    );
    assert!(client.ask("INFO errorstats").contains("errorstat_ERR:count=16\r\nerrorstat_EXECABORT:count=8"));
    assert!(client.ask("INFO keyspace").contains("db0:keys=1,expires=1,"));
    assert_eq!(client.ask("CONFIG RESETSTAT"), "+OK\r\n");
    assert!(!client.ask("INFO commandstats").contains("cmdstat_set"));
    assert_eq!(client.ask("SLOWLOG RESET") + &client.ask("SLOWLOG LEN"), "+OK\r\n:0\r\n");
    assert_eq!(client.ask("DEBUG POPULATE 10000 p 64"), "+OK\r\n");
    assert_eq!(client.ask("DBSIZE"), ":10001\r\n");
    client.ask("MULTI");
    client.ask("INCR p:1");
    client.ask("GET p:2");
    client.ask("EXEC");
    let stats = client.ask("INFO commandstats");
    let incr = stats.lines().find(|line| line.starts_with("cmdstat_incr:calls=1,"));
    assert!(incr.is_some_and(|line| line.ends_with(",rejected_calls=0,failed_calls=1")), "{stats}");
    assert!(stats.contains("cmdstat_get:calls=1,") && stats.contains("cmdstat_exec:calls=1,"), "{stats}");
    drop(server);
}
