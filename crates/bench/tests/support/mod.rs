//! A toy server that speaks enough RESP to be loaded, and can be told to misbehave. In memory, one thread per connection, any free port.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "not every test binary uses all of it; it is part of tests"
)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::args::Options;
use bench::fault::Result;
use bench::plan::Plan;
use bench::record::Run;
use bench::watch::Nobody;

/// How the server behaves.
#[derive(Clone, Default)]
pub struct Habits {
    /// Replies are held back while the time since the first request lies in this range.
    pub stall: Option<(Duration, Duration)>,
    /// Replied to every command but HELLO, INFO, CLUSTER.
    pub error: Option<&'static str>,
    /// Sent instead of any RESP.
    pub garbage: Option<&'static str>,
    /// Takes everything and says nothing.
    pub silent: bool,
    /// Closes after this many commands of a connection.
    pub closes_after: Option<u64>,
    /// GET returns something else than was set.
    pub lies: bool,
    /// The reply to CLUSTER SLOTS.
    pub slots: Option<Arc<Mutex<String>>>,
    /// Ports of the replicas that ROLE tells.
    pub replicas: Vec<u16>,
    /// The password that AUTH or HELLO must bring.
    pub password: Option<&'static str>,
}

pub struct Toy {
    pub port: u16,
    pub state: Arc<State>,
}

#[derive(Default)]
pub struct State {
    pub habits: Mutex<Habits>,
    /// Per connection everything but INFO that came in, in the order in which connections were made.
    pub streams: Mutex<Vec<Arc<Mutex<Vec<u8>>>>>,
    pub data: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    pub commands: AtomicU64,
    pub first: Mutex<Option<Instant>>,
    /// Times at which commands came.
    pub times: Mutex<Vec<Instant>>,
    pub keep_times: AtomicBool,
}

impl Toy {
    pub fn start(habits: Habits) -> Toy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State { habits: Mutex::new(habits), ..State::default() });
        let sockets = std::iter::from_fn(move || Some(listener.accept().map(|(socket, _)| socket)));
        accept(sockets, &state, |socket| {
            socket.set_nodelay(true).unwrap();
            socket
        });
        Toy { port, state }
    }

    /// As [`Toy::start`], for TLS.
    pub fn start_tls(config: Arc<rustls::ServerConfig>) -> Toy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let sockets = std::iter::from_fn(move || Some(listener.accept().map(|(socket, _)| socket)));
        accept(sockets, &state, move |socket: TcpStream| {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            rustls::StreamOwned::new(connection, socket)
        });
        Toy { port, state }
    }

    /// As [`Toy::start`], at a Unix socket; there is no port.
    pub fn start_unix(path: &std::path::Path) -> Toy {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        let state = Arc::new(State::default());
        let sockets = std::iter::from_fn(move || Some(listener.accept().map(|(socket, _)| socket)));
        accept(sockets, &state, |socket| socket);
        Toy { port: 0, state }
    }

    /// A plan for this server from options as on the command line.
    pub fn plan(&self, options: &str) -> Plan {
        self.try_plan(options).unwrap()
    }

    pub fn try_plan(&self, options: &str) -> Result<Plan> {
        let mut words: Vec<String> = vec!["-p".into(), self.port.to_string()];
        let bytes = stdx::quote::split_args(options.as_bytes()).unwrap();
        words.extend(bytes.into_iter().map(|word| String::from_utf8(word).unwrap()));
        Options::parse(words)?.plan("test")
    }

    /// Runs all tests of a plan and returns the record of the last one.
    pub fn run(&self, options: &str) -> Result<Run> {
        let plan = self.try_plan(options)?;
        let interrupted = AtomicBool::new(false);
        let mut runs = bench::app::run_all(&plan, &mut Nobody, &interrupted, |_| {})?;
        Ok(runs.pop().unwrap())
    }

    /// What came in on connections that were loaded, sorted.
    pub fn loads(&self) -> Vec<Vec<u8>> {
        let streams = self.state.streams.lock().unwrap();
        let mut loads: Vec<Vec<u8>> = streams.iter().map(|stream| stream.lock().unwrap().clone()).collect();
        loads.retain(|load| !load.is_empty());
        loads.sort();
        loads
    }
}

/// Accepts connections for ever, wrapped by `wrap`.
fn accept<S: Read + Write + Send + 'static, T: Send + 'static>(
    sockets: impl Iterator<Item = std::io::Result<T>> + Send + 'static,
    state: &Arc<State>,
    wrap: impl Fn(T) -> S + Send + 'static,
) {
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        for socket in sockets {
            let Ok(socket) = socket else { return };
            let (state, socket) = (Arc::clone(&state), wrap(socket));
            let stream = Arc::new(Mutex::new(Vec::new()));
            state.streams.lock().unwrap().push(Arc::clone(&stream));
            // A client that has gone is no news.
            std::thread::spawn(move || drop(serve(socket, &state, &stream)));
        }
    });
}

fn serve<S: Read + Write>(mut socket: S, state: &State, stream: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut input = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut served = 0;
    loop {
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..count]);
        let mut replies = Vec::new();
        let mut used = 0;
        while let Some((words, length)) = command(&input[used..]) {
            let raw = &input[used..used + length];
            used += length;
            let habits = state.habits.lock().unwrap().clone();
            if habits.silent {
                continue;
            }
            if let Some(garbage) = habits.garbage {
                replies.extend_from_slice(garbage.as_bytes());
                continue;
            }
            let name = String::from_utf8_lossy(&words[0]).to_uppercase();
            if let Some(reply) = about(&name, &words, &habits) {
                replies.extend_from_slice(reply.as_bytes());
                continue;
            }
            stream.lock().unwrap().extend_from_slice(raw);
            served += 1;
            if habits.closes_after.is_some_and(|limit| served > limit) {
                return Ok(());
            }
            stall(state, &habits);
            answer(&name, &words, state, &habits, &mut replies);
        }
        input.drain(..used);
        socket.write_all(&replies)?;
    }
}

/// What a client asks about the server, not its data.
fn about(name: &str, words: &[Vec<u8>], habits: &Habits) -> Option<String> {
    let password = |word: usize| words.get(word).map(Vec::as_slice) == habits.password.map(str::as_bytes);
    match name {
        "INFO" => {
            let text = "redis_version:7.0.0\r\nused_memory:1000\r\nused_cpu_sys:0.1\r\n";
            Some(format!("${}\r\n{text}\r\n", text.len()))
        }
        "HELLO" if habits.password.is_some() && !password(4) => {
            Some("-NOAUTH HELLO must be called with AUTH\r\n".into())
        }
        "HELLO" => Some("%1\r\n$5\r\nproto\r\n:3\r\n".into()),
        "AUTH" if password(words.len() - 1) => Some("+OK\r\n".into()),
        "AUTH" => Some("-WRONGPASS invalid username-password pair or user is disabled.\r\n".into()),
        "ROLE" => {
            let replica = |port: &u16| {
                format!("*3\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n$1\r\n0\r\n", port.to_string().len())
            };
            let replicas: String = habits.replicas.iter().map(replica).collect();
            Some(format!("*3\r\n$6\r\nmaster\r\n:0\r\n*{}\r\n{replicas}", habits.replicas.len()))
        }
        "SELECT" | "READONLY" | "CLIENT" => Some("+OK\r\n".into()),
        "CLUSTER" => Some(match &habits.slots {
            Some(slots) => slots.lock().unwrap().clone(),
            None => "-ERR This instance has cluster support disabled\r\n".into(),
        }),
        _ => None,
    }
}

fn stall(state: &State, habits: &Habits) {
    state.commands.fetch_add(1, Ordering::Relaxed);
    if state.keep_times.load(Ordering::Relaxed) {
        state.times.lock().unwrap().push(Instant::now());
    }
    let Some((from, to)) = habits.stall else { return };
    let first = *state.first.lock().unwrap().get_or_insert_with(Instant::now);
    let since = first.elapsed();
    if since >= from && since < to {
        // This is what the server is for: it stands still, as one that swaps or forks does.
        std::thread::sleep(to - since);
    }
}

fn answer(name: &str, words: &[Vec<u8>], state: &State, habits: &Habits, replies: &mut Vec<u8>) {
    if let Some(error) = habits.error {
        replies.extend_from_slice(format!("-{error}\r\n").as_bytes());
        return;
    }
    match name {
        "SET" | "SETEX" => {
            state.data.lock().unwrap().insert(words[1].clone(), words[words.len() - 1].clone());
            replies.extend_from_slice(b"+OK\r\n");
        }
        "GET" => match state.data.lock().unwrap().get(&words[1]) {
            Some(_) if habits.lies => replies.extend_from_slice(b"$3\r\nlie\r\n"),
            Some(value) => {
                replies.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
                replies.extend_from_slice(value);
                replies.extend_from_slice(b"\r\n");
            }
            None => replies.extend_from_slice(b"$-1\r\n"),
        },
        _ => replies.extend_from_slice(b"+PONG\r\n"),
    }
}

/// The first command of `bytes`, inline or not, and its length.
fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let line = |from: usize| bytes.get(from..)?.windows(2).position(|two| two == b"\r\n").map(|at| from + at);
    let end = line(0)?;
    let text = std::str::from_utf8(&bytes[..end]).unwrap();
    let Some(count) = text.strip_prefix('*') else {
        return Some((text.split(' ').map(|word| word.as_bytes().to_vec()).collect(), end + 2));
    };
    let mut at = end + 2;
    let mut words = Vec::new();
    for _ in 0..count.parse::<usize>().unwrap() {
        let end = line(at)?;
        let length: usize = std::str::from_utf8(&bytes[at + 1..end]).unwrap().parse().unwrap();
        words.push(bytes.get(end + 2..end + 2 + length)?.to_vec());
        at = end + 2 + length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}
