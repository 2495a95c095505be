//! Scenarios about lists and sets: bytes of many small ones and of large ones, processor time of what they are used for.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Instant;

use super::load::Random;
use super::memory::used_memory;
use super::{Bench, Goal, Row, Side, median, process};
use crate::fail::Result;
use crate::server::Server;
use crate::wire;

/// Commands sent before their replies are read, which fit into the sockets' buffers.
const BATCH: u64 = 128;
const SIDES: [Side; 2] = [Side::Darter, Side::Valkey];
const LIST_ELEMENTS: u64 = 20;
const ELEMENT_BYTES: usize = 16;
const SET_MEMBERS: u64 = 20;
const MEMBER_BYTES: usize = 8;
/// Members that one SADD adds to a large set.
const PER_COMMAND: u64 = 100;
/// Times that an intersection is computed.
const INTERSECTIONS: usize = 5;

/// The words of a command.
type Words = Vec<Vec<u8>>;

/// Sends commands and reads their replies; microseconds of the server's processor time per command.
fn run(server: &Server, commands: u64, mut words: impl FnMut(u64) -> Words) -> Result<f64> {
    let client = server.client()?;
    let mut socket = client.socket();
    let mut replies = BufReader::with_capacity(1 << 20, client.socket());
    let before = process::cpu_time(server.pid())?;
    let mut out = Vec::new();
    let mut sent = 0;
    while sent < commands {
        let batch = BATCH.min(commands - sent);
        out.clear();
        (sent..sent + batch).for_each(|number| wire::encode(&words(number), &mut out));
        socket.write_all(&out)?;
        (0..batch).try_for_each(|_| skip_reply(&mut replies))?;
        sent += batch;
    }
    let spent = process::cpu_time(server.pid())?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / commands as f64)
}

/// Reads a reply and forgets it.
fn skip_reply(replies: &mut impl BufRead) -> Result<()> {
    let mut left = 1_u64;
    let mut line = String::new();
    while left > 0 {
        line.clear();
        replies.read_line(&mut line)?;
        left -= 1;
        let number = || line[1..].trim_end().parse::<i64>();
        match line.as_bytes().first() {
            Some(b'$') => {
                let bytes = u64::try_from(number()? + 2).unwrap_or(0);
                std::io::copy(&mut replies.by_ref().take(bytes), &mut std::io::sink())?;
            }
            Some(b'*') => left += u64::try_from(number()?).unwrap_or(0),
            Some(b':' | b'+') => {}
            _ => return Err(format!("refused: {line}").into()),
        }
    }
    Ok(())
}

fn letters(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).map(|_| b'a' + random.below(26) as u8).collect()
}

fn command(name: &str, key: String, rest: impl IntoIterator<Item = Vec<u8>>) -> Words {
    [name.as_bytes().to_vec(), key.into_bytes()].into_iter().chain(rest).collect()
}

/// Bytes of `used_memory` that commands add, divided by `per`, on each side.
fn bytes(
    bench: &Bench,
    what: &str,
    commands: u64,
    per: u64,
    words: fn(u64, &mut Random) -> Words,
) -> Result<[f64; 2]> {
    let mut figures = [0.0; 2];
    for (figure, side) in figures.iter_mut().zip(SIDES) {
        let server = bench.start(side, 1, &[], None)?;
        let empty = used_memory(&server)?;
        let mut random = Random(5);
        run(&server, commands, |number| words(number, &mut random))?;
        *figure = (used_memory(&server)? - empty) as f64 / per as f64;
        println!("{side:?}, {what}: {figure:.1} B");
    }
    Ok(figures)
}

fn ratio(what: String, figures: [f64; 2], digits: usize, unit: &str, most: f64) -> Row {
    let [darter, valkey] = figures.map(|figure| format!("{figure:.digits$} {unit}"));
    let figure = figures[0] / figures[1];
    Row { what, darter, valkey, figure, shown: format!("{figure:.2} x"), goal: Goal::AtMost(most) }
}

/// Bytes of many small lists, and of one long one.
pub fn list_memory(bench: &Bench) -> Result<Vec<Row>> {
    let lists = bench.count(1_000_000);
    let what = format!("{lists} lists of {LIST_ELEMENTS} elements of {ELEMENT_BYTES} B: B/list");
    let small = bytes(bench, &what, lists, lists, |number, random| {
        let elements = (0..LIST_ELEMENTS).map(|_| letters(random, ELEMENT_BYTES));
        command("RPUSH", format!("list:{number:011}"), elements)
    })?;
    let elements = bench.count(10_000_000);
    let one = format!("one list of {elements} elements of {ELEMENT_BYTES} B: B/element");
    let long = bytes(bench, &one, elements / PER_COMMAND, elements, |_, random| {
        command("RPUSH", "list".into(), (0..PER_COMMAND).map(|_| letters(random, ELEMENT_BYTES)))
    })?;
    Ok(vec![ratio(what, small, 1, "B", 0.9), ratio(one, long, 1, "B", 1.0)])
}

/// Processor time of pushing and popping, and of reading a hundred elements.
pub fn list_speed(bench: &Bench) -> Result<Vec<Row>> {
    let commands = bench.count(2_000_000);
    let ranges = bench.count(200_000);
    let mut figures = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for round in 0..bench.rounds {
        for (place, side) in SIDES.into_iter().enumerate() {
            let server = bench.start(side, 1, &[], None)?;
            let job = |number: u64| format!("job:{number:012}").into_bytes();
            run(&server, 1000, |number| {
                command("LPUSH", format!("queue:{number:04}"), (0..LIST_ELEMENTS).map(job))
            })?;
            let queues = run(&server, commands, |number| {
                let (key, value) = (format!("queue:{:04}", number / 2 % 1000), job(number));
                if number % 2 == 0 { command("LPUSH", key, [value]) } else { command("RPOP", key, []) }
            })?;
            run(&server, 1000, |number| {
                command("RPUSH", "list".into(), [format!("job:{number:012}").into_bytes()])
            })?;
            let range =
                run(&server, ranges, |_| command("LRANGE", "list".into(), [b"0".to_vec(), b"99".to_vec()]))?;
            println!("{side:?}, round {round}: {queues:.3} us, {range:.3} us");
            figures[0][place].push(queues);
            figures[1][place].push(range);
        }
    }
    let [queues, range] = figures.map(|sides| sides.map(|figures| median(&figures)));
    Ok(vec![
        ratio("LPUSH and RPOP in turns, 1,000 queues of 20: CPU/request".into(), queues, 3, "us", 0.6),
        ratio("LRANGE 0 99: CPU/request".into(), range, 2, "us", 0.6),
    ])
}

/// Bytes of many small sets, of a large one, and of a large one of integers.
pub fn set_memory(bench: &Bench) -> Result<Vec<Row>> {
    let sets = bench.count(1_000_000);
    let what = format!("{sets} sets of {SET_MEMBERS} members of {MEMBER_BYTES} B: B/set");
    let small = bytes(bench, &what, sets, sets, |number, random| {
        let members = (0..SET_MEMBERS).map(|_| letters(random, MEMBER_BYTES));
        command("SADD", format!("set::{number:011}"), members)
    })?;
    let members = bench.count(10_000_000);
    let one = format!("one set of {members} members of {MEMBER_BYTES} B: B/member");
    let large = bytes(bench, &one, members / PER_COMMAND, members, |number, _| {
        let first = number * PER_COMMAND;
        command(
            "SADD",
            "set".into(),
            (first..first + PER_COMMAND).map(|member| format!("m{member:07}").into_bytes()),
        )
    })?;
    let of_integers = format!("one set of {members} integers: B/member");
    let integers = bytes(bench, &of_integers, members / PER_COMMAND, members, |number, _| {
        let first = number * PER_COMMAND;
        // Each once, in no order: an odd multiplier permutes 32-bit numbers.
        let integer = |member: u64| (member as u32).wrapping_mul(0x9e37_79b1).to_string().into_bytes();
        command("SADD", "set".into(), (first..first + PER_COMMAND).map(integer))
    })?;
    Ok(vec![
        ratio(what, small, 1, "B", 0.7),
        ratio(one, large, 1, "B", 0.7),
        ratio(of_integers, integers, 1, "B", 0.7),
    ])
}

/// Time of an intersection of two large sets that have half of their members in common.
pub fn set_intersection(bench: &Bench) -> Result<Vec<Row>> {
    let members = bench.count(1_000_000);
    let mut figures = [0.0; 2];
    for (figure, side) in figures.iter_mut().zip(SIDES) {
        let server = bench.start(side, 1, &[], None)?;
        for (key, offset) in [("a", 0), ("b", members / 2)] {
            run(&server, members / PER_COMMAND, |number| {
                let first = offset + number * PER_COMMAND;
                let member = |member| format!("member:{member:09}").into_bytes();
                command("SADD", key.into(), (first..first + PER_COMMAND).map(member))
            })?;
        }
        let mut client = server.client()?;
        let mut times = Vec::new();
        for _ in 0..INTERSECTIONS {
            let began = Instant::now();
            client.call(&["SINTERCARD", "2", "a", "b"])?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        *figure = median(&times);
        println!("{side:?}: {figure:.1} ms");
    }
    Ok(vec![ratio(format!("intersection of two sets of {members} members: time"), figures, 1, "ms", 0.5)])
}
