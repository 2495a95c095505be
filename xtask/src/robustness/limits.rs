//! Values and settings at the edge of what can be represented, and beyond.

use super::{Scene, expect, expect_error};
use crate::bench::load::Random;
use crate::fail::Result;
use crate::server::{Program, Server};
use crate::wire::Value;

/// The longest word: `proto-max-bulk-len`.
const WORD_BYTES_MAX: usize = 512 << 20;

fn noise(len: usize) -> Vec<u8> {
    let mut random = Random(len as u64);
    let block: Vec<u8> = (0..4096).map(|_| random.next() as u8).collect();
    let mut bytes = block.repeat(len.div_ceil(block.len()));
    bytes.truncate(len);
    bytes
}

/// Keys of any bytes and of any length.
pub fn binary_keys(scene: &mut Scene) -> Result<()> {
    let mut client = scene.client()?;
    for len in
        [0, 1, 2, 127, 128, 255, 256, 16_383, 16_384, 65_535, 65_536, 1 << 20, 64 << 20, WORD_BYTES_MAX]
    {
        let key = noise(len);
        let told = |e| format!("a key of {len} bytes: {e}");
        let value = len.to_string();
        expect(client.call(&[b"SET".as_slice(), &key, value.as_bytes()])?, "OK").map_err(told)?;
        expect(client.call(&[b"GET".as_slice(), &key])?, &format!("\"{value}\"")).map_err(told)?;
        if len < 64 << 20 {
            let Value::Array(keys) = client.call(&["KEYS", "*"])? else {
                return Err("KEYS gives no array".into());
            };
            if !keys.contains(&Value::Bulk(key.clone())) {
                return Err(told("KEYS does not give it back".into()).into());
            }
        }
        expect(client.call(&[b"DEL".as_slice(), &key])?, "(integer) 1").map_err(told)?;
    }
    let mut client = scene.client()?;
    client.send_raw(format!("*2\r\n$3\r\nGET\r\n${}\r\n", WORD_BYTES_MAX + 1).as_bytes())?;
    expect_error(&client.receive_or_closed()?, "Protocol error: invalid bulk length")
}

/// The largest value goes in, comes out the same, and cannot grow.
pub fn large_values(scene: &mut Scene) -> Result<()> {
    let mut client = scene.client()?;
    for len in [16_384, 16_385, 1 << 20, 100 << 20, WORD_BYTES_MAX] {
        let value = noise(len);
        expect(client.call(&[b"SET".as_slice(), b"big", &value])?, "OK")?;
        if client.call(&["GET", "big"])? != Value::Bulk(value) {
            return Err(format!("a value of {len} bytes came back changed").into());
        }
    }
    let too_long = "string exceeds maximum allowed size";
    expect_error(&client.call(&["APPEND", "big", "x"])?, too_long)?;
    expect_error(&client.call(&["SETRANGE", "big", "536870912", "x"])?, too_long)?;
    expect_error(&client.call(&["SETRANGE", "big", "9223372036854775807", "x"])?, too_long)?;
    expect_error(&client.call(&["SETRANGE", "big", "-1", "x"])?, "offset is out of range")?;
    expect(client.call(&["STRLEN", "big"])?, &format!("(integer) {WORD_BYTES_MAX}"))?;
    expect(client.call(&["GETRANGE", "big", "-1", "-2"])?, "\"\"")?;
    expect(client.call(&["GETRANGE", "big", "9223372036854775807", "9223372036854775807"])?, "\"\"")?;
    expect(client.call(&["DEL", "big"])?, "(integer) 1")
}

/// Elements of every collection may be as short and as long as values.
pub fn large_elements(scene: &mut Scene) -> Result<()> {
    let mut client = scene.client()?;
    for len in [0, 1, 64, 16_384, 16_385, 65_535, 65_536, 8 << 20, WORD_BYTES_MAX] {
        let element = noise(len);
        let told = |e| format!("an element of {len} bytes: {e}");
        for (add, added, find, found) in [
            (["RPUSH", "k"].as_slice(), "(integer) 1", ["LPOS", "k"].as_slice(), "(integer) 0"),
            (&["SADD", "k"], "(integer) 1", &["SISMEMBER", "k"], "(integer) 1"),
            (&["ZADD", "k", "1.5"], "(integer) 1", &["ZSCORE", "k"], "\"1.5\""),
            (&["HSETNX", "k", "f"], "(integer) 1", &["HGET", "k"], "(nil)"),
            (&["XADD", "k", "5-1", "f"], "\"5-1\"", &["XLEN"], "(integer) 0"),
        ] {
            let with = |words: &[&str]| {
                let words = words.iter().map(|word| word.as_bytes());
                words.chain(std::iter::once(element.as_slice())).map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            expect(client.call(&with(add))?, added).map_err(told)?;
            if len < WORD_BYTES_MAX {
                expect(client.call(&with(find))?, found).map_err(told)?;
                // As a name of its own, too: a field is as good as a value.
                if add[0] == "HSETNX" {
                    let named = [b"HSET".as_slice(), b"k", &element, b"v", b"other", &element];
                    expect(client.call(&named)?, "(integer) 2").map_err(told)?;
                    expect(client.call(&with(find))?, "\"v\"").map_err(told)?;
                    if client.call(&["HGET", "k", "other"])? != Value::Bulk(element.clone()) {
                        return Err(told("a field came back changed".into()).into());
                    }
                }
            }
            expect(client.call(&["DEL", "k"])?, "(integer) 1").map_err(told)?;
        }
    }
    Ok(())
}

/// What MULTI queues was in no account: a client could take any memory, whatever `maxmemory` said.
pub fn large_transaction(program: &Program) -> Result<()> {
    let server = Server::start(program, &["--maxmemory", "20mb"])?;
    let (mut client, value) = (server.client()?, noise(5 << 20));
    expect(client.call(&["MULTI"])?, "OK")?;
    let mut queue = |times: usize| -> Result<Vec<Value>> {
        (0..times).map(|_| client.call(&[b"SET".as_slice(), b"k", &value])).collect()
    };
    let replies = queue(20)?;
    if let Some(other) = replies.iter().find(|reply| !matches!(reply, Value::Error(_) | Value::Simple(_))) {
        return Err(format!("queueing gave {:.80}", other.render()).into());
    }
    let refused =
        replies.iter().find(|reply| reply.is_error()).ok_or("100 MB were queued where 20 may be")?;
    expect_error(refused, "OOM command not allowed")?;
    expect_error(&client.call(&["EXEC"])?, "EXECABORT")?;
    expect(client.call(&["SET", "k", "v"])?, "OK")
}

/// Commands of as many words as the protocol lets through: each has all of its effect.
pub fn million_words(scene: &mut Scene) -> Result<()> {
    const ELEMENTS: usize = 1_000_000;
    let mut client = scene.client()?;
    let numbers: Vec<String> = (0..ELEMENTS).map(|n| n.to_string()).collect();
    let mut send = |start: &[&str], words: &[String]| -> Result<Value> {
        let words = words.iter().map(String::as_str);
        client.call(&start.iter().copied().chain(words).collect::<Vec<_>>())
    };
    let (all, half) = ("(integer) 1000000", "(integer) 500000");
    for (start, added, count) in [
        (["RPUSH", "k"].as_slice(), all, ["LLEN", "k"].as_slice()),
        (&["SADD", "k"], all, &["SCARD", "k"]),
        (&["ZADD", "k"], half, &["ZCARD", "k"]),
        (&["HSET", "k"], half, &["HLEN", "k"]),
        (&["PFADD", "k"], "(integer) 1", &["EXISTS", "k"]),
        (&["XADD", "k", "1-1"], "\"1-1\"", &["EXISTS", "k"]),
        (&["MSET"], "OK", &["DBSIZE"]),
    ] {
        let told = |e| format!("{}: {e}", start.join(" "));
        expect(send(start, &numbers)?, added).map_err(told)?;
        let has = send(count, &[])?;
        match start[0] {
            "PFADD" | "XADD" => expect(has, "(integer) 1").map_err(told)?,
            // The neighbour's keys are there as well.
            "MSET" => {
                expect(send(&["EXISTS"], &numbers)?, half).map_err(told)?;
                expect(send(&["DEL"], &numbers)?, half).map_err(told)?;
            }
            _ => expect(has, added).map_err(told)?,
        }
        send(&["DEL", "k"], &[])?;
    }
    // A wrong word at the end: nothing was done.
    for start in [["ZADD", "k"].as_slice(), &["HINCRBY", "k"], &["MSETEX", "500000"]] {
        let mut words = numbers.clone();
        words.push("no number".to_string());
        let reply = send(start, &words)?;
        expect_error(&reply, "").map_err(|e| format!("{}: {e}", start.join(" ")))?;
        expect(send(&["EXISTS", "k", "0", "2"], &[])?, "(integer) 0")?;
    }
    Ok(())
}

/// A counter that would overflow answers so and keeps its value.
pub fn counters(scene: &mut Scene) -> Result<()> {
    let mut client = scene.client()?;
    let (most, least) = (i64::MAX.to_string(), i64::MIN.to_string());
    let overflow = "increment or decrement would overflow";
    let not_integer = "value is not an integer or out of range";
    for (value, command, why) in [
        (&*most, "INCR c", overflow),
        (&*most, "INCRBY c 1", overflow),
        (&*most, "DECRBY c -1", overflow),
        (&*least, "DECR c", overflow),
        (&*least, "DECRBY c 1", overflow),
        (&*least, "INCRBY c -1", overflow),
        (&*least, "DECRBY c 9223372036854775807", overflow),
        ("0", "DECRBY c -9223372036854775808", "decrement would overflow"),
        ("0", "INCRBY c 9223372036854775808", not_integer),
        ("0", "INCRBY c 1.0", not_integer),
        ("0", "INCRBY c \" 1\"", not_integer),
        ("0", "INCRBY c \"\"", not_integer),
        ("0", "DECRBY c 0x10", not_integer),
        ("9223372036854775808", "INCR c", not_integer),
        ("01", "INCR c", not_integer),
        ("1.5", "INCR c", not_integer),
        ("0", "INCRBYFLOAT c nan", "not a valid float"),
        ("0", "INCRBYFLOAT c inf", "increment would produce NaN or Infinity"),
        ("0", "INCRBYFLOAT c x", "not a valid float"),
        ("x", "INCRBYFLOAT c 1", "not a valid float"),
    ] {
        expect(client.call(&["SET", "c", value])?, "OK")?;
        expect_error(&client.line(command)?, why).map_err(|e| format!("{value}, {command}: {e}"))?;
        expect(client.call(&["GET", "c"])?, &format!("\"{value}\""))
            .map_err(|e| format!("after {command}: {e}"))?;
    }
    Ok(())
}

/// A time that cannot be is refused and changes nothing; one in the past deletes.
pub fn expiry(scene: &mut Scene) -> Result<()> {
    let mut client = scene.client()?;
    let invalid = "invalid expire time in '";
    for command in [
        "EXPIRE k 9223372036854775807",
        "EXPIRE k -9223372036854775808",
        "EXPIRE k 9223372036854776",
        "PEXPIRE k 9223372036854775807",
        "EXPIREAT k 9223372036854775807",
        "SET k x EX 0",
        "SET k x EX -1",
        "SET k x EX 9223372036854775807",
        "SET k x PX 9223372036854775807",
        "SET k x EXAT 9223372036854775807",
        "SET k x PXAT -1",
        "SETEX k 0 x",
        "SETEX k 9223372036854775807 x",
        "PSETEX k -1 x",
        "PSETEX k 9223372036854775807 x",
        "GETEX k EX 0",
        "GETEX k PX 9223372036854775807",
        "GETEX k EXAT 9223372036854775807",
    ] {
        expect(client.line("SET k kept")?, "OK")?;
        expect_error(&client.line(command)?, invalid).map_err(|e| format!("{command}: {e}"))?;
        expect(client.line("GET k")?, "\"kept\"").map_err(|e| format!("after {command}: {e}"))?;
        expect(client.line("TTL k")?, "(integer) -1").map_err(|e| format!("after {command}: {e}"))?;
    }
    for command in ["EXPIRE k soon", "SET k x EX 1.5", "SETEX k \"\" x", "PEXPIREAT k 9223372036854775808"] {
        expect_error(&client.line(command)?, "value is not an integer or out of range")
            .map_err(|e| format!("{command}: {e}"))?;
    }
    for command in ["EXPIRE k -1", "PEXPIREAT k 1", "EXPIREAT k -5"] {
        expect(client.line("SET k gone")?, "OK")?;
        expect(client.line(command)?, "(integer) 1")?;
        expect(client.line("EXISTS k")?, "(integer) 0").map_err(|e| format!("after {command}: {e}"))?;
    }
    // Far, but representable: kept to the millisecond.
    expect(client.line("SET k far PXAT 9223372036854775806")?, "OK")?;
    expect(client.line("PEXPIRETIME k")?, "(integer) 9223372036854775806")
}

/// A wrong value is refused with its name, and the setting stays.
pub fn config_set(scene: &mut Scene) -> Result<()> {
    let mut client = scene.client()?;
    for (name, value) in [
        ("maxmemory", "much"),
        ("maxmemory", "-1"),
        ("maxmemory-policy", "whatever"),
        ("maxmemory-samples", "0"),
        ("timeout", "-1"),
        ("timeout", "soon"),
        ("tcp-keepalive", "x"),
        ("maxclients", "0"),
        ("slowlog-log-slower-than", "x"),
        ("lazyfree-lazy-expire", "maybe"),
        ("loglevel", "loud"),
        ("client-output-buffer-limit", "normal x 0 0"),
        ("client-output-buffer-limit", "nobody 0 0 0"),
        ("proto-max-bulk-len", "1"),
        ("databases", "4"),
    ] {
        let told = |e| format!("CONFIG SET {name} {value}: {e}");
        let before = client.call(&["CONFIG", "GET", name])?;
        expect_error(&client.call(&["CONFIG", "SET", name, value])?, name).map_err(told)?;
        if client.call(&["CONFIG", "GET", name])? != before {
            return Err(told("it was changed all the same".into()).into());
        }
    }
    expect_error(&client.line("CONFIG SET no-such-setting 1")?, "Unknown option")?;
    expect_error(&client.line("CONFIG SET maxmemory")?, "wrong number of arguments")?;
    expect_error(&client.line("CONFIG SET maxmemory 1mb maxmemory 2mb")?, "duplicate")?;
    // All or nothing: a good setting beside a bad one stays as it was.
    let before = client.line("CONFIG GET maxmemory-samples")?;
    expect_error(&client.line("CONFIG SET maxmemory-samples 9 timeout x")?, "timeout")?;
    if client.line("CONFIG GET maxmemory-samples")? != before {
        return Err("half of a refused CONFIG SET was applied".into());
    }
    Ok(())
}
