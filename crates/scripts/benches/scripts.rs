//! Nanoseconds per run of a script whose commands cost nothing. `cargo bench -p scripts`

use std::hint::black_box;
use std::time::Instant;

use resp::Reply;
use scripts::{Called, Host, Level, Poll, Vm};

struct Nothing;

impl Host for Nothing {
    fn call(&mut self, words: &[&[u8]], reply: &mut Reply) -> Called {
        if words.len() == 2 {
            reply.bulk(b"value of sixteen")
        } else {
            reply.ok()
        }
        Called::Done
    }

    fn acl_allows(&mut self, _: &[&[u8]]) -> Option<bool> {
        Some(true)
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn poll(&mut self) -> Poll {
        Poll::Go
    }
}

fn main() {
    const RUNS: u32 = 50_000;
    let mut vm = Vm::default();
    let mut reply = Reply::default();
    for source in [
        "return 1",
        "return KEYS[1]",
        "return redis.call('get', KEYS[1])",
        "local v = redis.call('get', KEYS[1]) redis.call('set', KEYS[1], ARGV[1]) return v",
        "return cjson.encode(cjson.decode('{\"id\":17,\"name\":\"a job\",\"tags\":[1,2,3]}'))",
        "return #cmsgpack.pack(cmsgpack.unpack('\\131\\162id\\17\\164name\\165a job\\164tags\\147\\1\\2\\3'))",
        "local n = 0 for i = 1, 1000 do n = n + i end return n",
    ] {
        let script = vm.check(source.as_bytes()).unwrap_or_else(|_| panic!("it compiles"));
        let mut run = || {
            reply.bytes.clear();
            vm.run(
                &script,
                &[b"key:000000000001"],
                &[b"value of sixteen"],
                &mut Nothing,
                black_box(&mut reply),
            )
        };
        let best = (0..5)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..RUNS {
                    black_box(run());
                }
                start.elapsed()
            })
            .min()
            .expect("five rounds were run");
        println!("{:9.1} ns  {source}", best.as_secs_f64() * 1e9 / f64::from(RUNS));
    }
}
