//! Compares the engines: an echo server on one thread, a load generator on another, CPU time per request of the server's thread.
//!
//! ```text
//! cargo run --release -p reactor --example echo [seconds per run [rounds]]
//! ```
//!
//! The load generator always uses epoll, so that only the server differs. Runs are interleaved; medians are printed. "one core" puts both
//! threads on the same core: the server then finds all that is waiting at once, as a saturated server does.

use std::error::Error;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use reactor::affinity::{cores, pin_current_thread};
use reactor::{EngineKind, Event, Options, Reactor, Waker};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const REQUEST_BYTES: usize = 64;

struct Load {
    name: &'static str,
    connections: usize,
    pipeline: usize,
    one_core: bool,
}

const LOADS: [Load; 5] = [
    Load { name: "c50 P1", connections: 50, pipeline: 1, one_core: false },
    Load { name: "c50 P16", connections: 50, pipeline: 16, one_core: false },
    Load { name: "c8 P64", connections: 8, pipeline: 64, one_core: false },
    Load { name: "c500 P1", connections: 500, pipeline: 1, one_core: false },
    Load { name: "c50 P1, one core", connections: 50, pipeline: 1, one_core: true },
];

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    cpu_ns: AtomicU64,
    turns: AtomicU64,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(1.0), |word| word.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(3), |word| word.parse())?;
    println!("{:18} {:6} {:>10} {:>12} {:>12}", "load", "engine", "k req/s", "CPU us/req", "turns/req");
    for load in &LOADS {
        let engines = [EngineKind::Epoll, EngineKind::Uring];
        let mut results = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (engine, results) in engines.iter().zip(&mut results) {
                results.push(run(*engine, load, Duration::from_secs_f64(seconds))?);
            }
        }
        for (engine, results) in engines.iter().zip(&mut results) {
            results.sort_by(|one, other| one.1.total_cmp(&other.1));
            let (rate, cpu, turns) = results[results.len() / 2];
            println!("{:18} {engine:<6?} {rate:10.0} {cpu:12.3} {turns:12.4}", load.name);
        }
    }
    Ok(())
}

/// Thousand requests per second, microseconds of server CPU per request, turns per request.
fn run(engine: EngineKind, load: &Load, time: Duration) -> Result<(f64, f64, f64)> {
    let cores = cores().allowed;
    let (server_core, client_core) =
        (cores[0], if load.one_core { cores[0] } else { cores[cores.len() - 1] });
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let shared = Arc::new(Shared::default());
    let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
    let theirs = Arc::clone(&shared);
    let server = std::thread::spawn(move || -> Result<()> {
        pin_current_thread(server_core)?;
        let (mut reactor, _) = Reactor::new(engine, Options::default())?;
        reactor.listen(listener.into(), 0)?;
        sender.send(reactor.waker())?;
        serve(&mut reactor, &theirs)
    });
    let waker = receiver.recv()?;
    let client = std::thread::spawn({
        let (connections, pipeline) = (load.connections, load.pipeline);
        let shared = Arc::clone(&shared);
        move || -> Result<(f64, f64, f64)> {
            pin_current_thread(client_core)?;
            drive(address, connections, pipeline, time, &shared, &waker)
        }
    });
    let result = client.join().expect("the client does not panic");
    shared.stop.store(true, SeqCst);
    server.join().expect("the server does not panic")?;
    result
}

fn serve(reactor: &mut Reactor, shared: &Shared) -> Result<()> {
    while !shared.stop.load(SeqCst) {
        reactor.turn(Some(Duration::from_millis(100)))?;
        shared.turns.fetch_add(1, SeqCst);
        while let Some(event) = reactor.next_event() {
            match event {
                Event::Accepted { socket, .. } => {
                    let stream = TcpStream::from(socket);
                    stream.set_nodelay(true)?;
                    reactor.add(stream.into());
                }
                Event::Data { conn, input } => {
                    let mut bytes = reactor.buffer();
                    bytes.extend_from_slice(&input);
                    reactor.send(conn, bytes.into());
                }
                Event::Closed { conn, .. } => reactor.close(conn),
                Event::Woken => shared.cpu_ns.store(thread_cpu_ns(), SeqCst),
                Event::Drained { .. } => {}
                Event::AcceptFailed { error, .. } => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Keeps `pipeline` requests under way on each connection.
fn drive(
    address: SocketAddr,
    connections: usize,
    pipeline: usize,
    time: Duration,
    shared: &Shared,
    waker: &Waker,
) -> Result<(f64, f64, f64)> {
    let (mut reactor, _) = Reactor::new(EngineKind::Epoll, Options::default())?;
    let batch = vec![b'x'; REQUEST_BYTES * pipeline];
    let mut missing = vec![batch.len(); connections];
    for _ in 0..connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let conn = reactor.add(stream.into());
        reactor.send(conn, batch.clone().into());
    }
    let mut requests = 0u64;
    let mut begin = None;
    let start = Instant::now();
    // A tenth of the time to warm up.
    let (warm, end) = (start + time / 10, start + time);
    loop {
        reactor.turn(Some(Duration::from_millis(10)))?;
        let now = Instant::now();
        if begin.is_none() && now > warm {
            begin = Some((now, requests, sample(shared, waker), shared.turns.load(SeqCst)));
        }
        if let Some((since, before, cpu, turns)) = begin
            && now > end
        {
            let cpu = sample(shared, waker) - cpu;
            let requests = (requests - before) as f64;
            let turns = (shared.turns.load(SeqCst) - turns) as f64;
            return Ok((
                requests / since.elapsed().as_secs_f64() / 1e3,
                cpu as f64 / 1e3 / requests,
                turns / requests,
            ));
        }
        while let Some(event) = reactor.next_event() {
            let Event::Data { conn, input } = event else { continue };
            let left = &mut missing[conn.index()];
            *left -= input.len();
            if *left == 0 {
                *left = batch.len();
                requests += pipeline as u64;
                let mut bytes = reactor.buffer();
                bytes.extend_from_slice(&batch);
                reactor.send(conn, bytes.into());
            }
        }
    }
}

/// The CPU time of the server's thread, which it alone can read.
fn sample(shared: &Shared, waker: &Waker) -> u64 {
    shared.cpu_ns.store(0, SeqCst);
    waker.wake();
    loop {
        match shared.cpu_ns.load(SeqCst) {
            0 => std::thread::yield_now(),
            ns => return ns,
        }
    }
}

fn thread_cpu_ns() -> u64 {
    reactor::clock::thread_cpu_us() * 1000
}
