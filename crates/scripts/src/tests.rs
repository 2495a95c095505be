//! Scripts against a host of their own. What they answer was recorded from Valkey 9.1.2.

use std::time::{Duration, Instant};

use resp::{Proto, Reply};

use super::*;

/// A server with four commands.
#[derive(Default)]
pub(crate) struct Fake {
    /// Polls after which the script is stopped.
    polls_max: Option<u32>,
    kill: Option<&'static str>,
    logged: Vec<(Level, Vec<u8>)>,
}

impl Host for Fake {
    fn call(&mut self, words: &[&[u8]], reply: &mut Reply) -> Called {
        match words[0].to_ascii_lowercase().as_slice() {
            b"echo" => reply.bulk(words[1]),
            b"get" => reply.null(),
            b"ping" => reply.simple("PONG"),
            b"shared" => reply.bulk_shared(std::sync::Arc::new(vec![b's'; 20_000])),
            b"lpush" => reply.error("WRONGTYPE Operation against a key holding the wrong kind of value"),
            b"hgetall" => {
                reply.map(1);
                reply.bulk(b"f");
                reply.bulk(b"v");
            }
            b"smembers" => {
                reply.set(1);
                reply.bulk(b"a");
            }
            b"zscore" => reply.double(1.5),
            b"exists" => reply.int(1),
            b"mget" => {
                reply.array(2);
                reply.bulk(b"1");
                reply.null();
            }
            b"lolwut" => reply.verbatim("txt", b"art"),
            b"stop" => return Called::Stop,
            _ => reply.error("ERR Unknown command called from script"),
        }
        Called::Done
    }

    fn acl_allows(&mut self, words: &[&[u8]]) -> Option<bool> {
        (words[0] == b"get").then_some(true)
    }

    fn log(&mut self, level: Level, message: &[u8]) {
        self.logged.push((level, message.to_vec()));
    }

    fn poll(&mut self) -> Poll {
        match &mut self.polls_max {
            None => Poll::Go,
            Some(0) => self.kill.map_or(Poll::Stop, Poll::Kill),
            Some(left) => {
                *left -= 1;
                Poll::Go
            }
        }
    }
}

/// Runs a script with `KEYS = {"key1"}` and `ARGV = {"a1", "a2"}`; the reply as bytes with `\r\n` shown as `|`.
pub(crate) fn run_with(vm: &mut Vm, source: &[u8], proto: Proto, fake: &mut Fake) -> (Ran, String) {
    let script = match vm.check(source) {
        Ok(script) => script,
        Err(text) => return (Ran::Failed, format!("-{}|", String::from_utf8_lossy(&text))),
    };
    let mut reply = Reply::new(proto);
    let ran = vm.run(&script, &[b"key1"], &[b"a1", b"a2"], fake, &mut reply);
    (ran, String::from_utf8_lossy(&reply.bytes).replace("\r\n", "|"))
}

fn run(source: &str) -> String {
    run_with(&mut Vm::default(), source.as_bytes(), Proto::Resp2, &mut Fake::default()).1
}

/// Lines of `script => reply`.
pub(crate) fn check(proto: Proto, cases: &str) {
    let mut vm = Vm::default();
    let mut wrong = Vec::new();
    for case in cases.lines().filter(|line| !line.trim().is_empty()) {
        let (source, wanted) = case.split_once(" => ").expect("script => reply");
        let (_, reply) = run_with(&mut vm, source.trim().as_bytes(), proto, &mut Fake::default());
        if reply != wanted {
            wrong.push(format!("{source}\n  is {reply}\n  not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn values_and_errors() {
    check(Proto::Resp2, include_str!("tests/base.txt"));
}

/// A reply as bytes, `\r\n` shown as `|` and what does not print as in Python.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        match byte {
            b'\r' if rest.first() == Some(&b'\n') => {
                rest = &rest[1..];
                text.push('|');
            }
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

#[test]
fn libraries() {
    let mut vm = Vm::default();
    let mut wrong = Vec::new();
    for case in include_str!("tests/libraries.txt").lines() {
        let (source, wanted) = case.split_once(" => ").expect("script => reply");
        let script = vm.check(source.as_bytes()).expect("it compiles");
        let mut reply = Reply::default();
        vm.run(&script, &[], &[], &mut Fake::default(), &mut reply);
        let reply = shown(&reply.bytes);
        if reply != wanted {
            wrong.push(format!("{source}\n  is  {reply}\n  not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn message_pack() {
    check(Proto::Resp2, include_str!("tests/cmsgpack.txt"));
}

#[test]
fn values_in_resp3() {
    check(Proto::Resp3, include_str!("tests/resp3.txt"));
}

#[test]
fn lines_and_first_lines() {
    for (source, wanted) in [
        ("#!lua\nreturn 1", ":1|".to_owned()),
        ("#!lua", "-ERR Invalid script shebang|".to_owned()),
        ("#!lua\n", "$-1|".to_owned()),
        ("#!", "-ERR Invalid script shebang|".to_owned()),
        ("#!\n", "-ERR Could not find scripting engine ''|".to_owned()),
        ("#!js\nreturn 1", "-ERR Could not find scripting engine 'js'|".to_owned()),
        ("#!lua flags=\nreturn 1", ":1|".to_owned()),
        ("#!lua flags=no-writes,\nreturn 1", "-ERR Unexpected flag in script shebang: |".to_owned()),
        (
            "#!lua flags=no-writes,allow-stale,allow-oom,no-cluster,allow-cross-slot-keys\nreturn 1",
            ":1|".to_owned(),
        ),
        (
            "#!lua flags=no-writes flags=bad\nreturn 1",
            "-ERR Unexpected flag in script shebang: bad|".to_owned(),
        ),
        ("#!lua name=x\nreturn 1", "-ERR Unknown lua shebang option: name=x|".to_owned()),
        ("#!lua\tflags=no-writes\r\nreturn 1", ":1|".to_owned()),
        ("#!LUA\nreturn 1", ":1|".to_owned()),
        ("#! lua\nreturn 1", "-ERR Unknown lua shebang option: lua|".to_owned()),
        (
            "# lua\nreturn 1",
            "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'|"
                .to_owned(),
        ),
        ("#!lua\n\nerror('x')", "-ERR user_script:3: x script: on @user_script:3.|".to_owned()),
        ("#!lua 'flags=no-writes\nreturn 1", "-ERR Invalid engine in script shebang|".to_owned()),
        ("\n\nerror('l3')", "-ERR user_script:3: l3 script: on @user_script:3.|".to_owned()),
        (
            "\x1bLua",
            "-ERR Error compiling script (new function): user_script:1: unexpected symbol near 'char(27)'|"
                .to_owned(),
        ),
    ] {
        assert_eq!(run(source), wanted, "{source}");
    }
}

/// What must end although it catches its errors.
const ENDLESS: [&str; 8] = [
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "local function f() return pcall(f) end while true do f() end",
    "while true do pcall(redis.call, 'ping') end",
    "while true do pcall(coroutine.wrap(function() while true do pcall(error) end end)) end",
    "while true do loadstring('while true do end')() end",
];

#[test]
fn endless_scripts_are_stopped_and_the_machine_goes_on() {
    let mut vm = Vm::default();
    for source in ENDLESS {
        let start = Instant::now();
        let mut fake = Fake { polls_max: Some(3), ..Fake::default() };
        assert_eq!(
            run_with(&mut vm, source.as_bytes(), Proto::Resp2, &mut fake),
            (Ran::Stopped, String::new()),
            "{source}"
        );
        let mut fake = Fake {
            polls_max: Some(3),
            kill: Some("Script killed by user with SCRIPT KILL."),
            ..Fake::default()
        };
        let (ran, reply) = run_with(&mut vm, source.as_bytes(), Proto::Resp2, &mut fake);
        assert_eq!(ran, Ran::Failed);
        assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL."), "{source}: {reply}");
        assert!(start.elapsed() < Duration::from_secs(20), "{source}");
        assert_eq!(
            run_with(&mut vm, b"return 1", Proto::Resp2, &mut Fake::default()),
            (Ran::Done, ":1|".into())
        );
    }
    let mut fake = Fake { polls_max: Some(3), kill: Some("Killed."), ..Fake::default() };
    let killed = run_with(&mut vm, b"\n\nwhile true do end", Proto::Resp2, &mut fake);
    assert_eq!(killed, (Ran::Failed, "-ERR Killed. script: on @user_script:3.|".into()));
    let stopped =
        run_with(&mut vm, b"pcall(redis.call, 'stop') return 1", Proto::Resp2, &mut Fake::default());
    assert_eq!(stopped, (Ran::Stopped, String::new()));
}

/// What must fail without harm.
const HARMFUL: [&str; 13] = [
    "local s = 'x' while true do s = s .. s end",
    "local t = {} while true do t[#t + 1] = {} end",
    "return string.rep('x', 2^40)",
    "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
    "local function f() return f() + 1 end return f()",
    "return string.find(('a'):rep(300000), ('a?'):rep(300000))",
    "return string.gsub(('a'):rep(300000), ('(a)'):rep(300000), '')",
    "return #{unpack({}, -2147483648, 2147483647)}",
    "return #{unpack({}, 1, 1e8)}",
    "return loadstring(('('):rep(100000) .. ('):)'):rep(100000))()",
    "local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) return t.a",
    "return load(string.dump(function() return 1 end))",
    "local function f(a) return redis.call(unpack(a)) end local t = {} for i = 1, 9000 do t[i] = 'x' end return f(t)",
];

#[test]
fn harmful_scripts_fail_and_the_machine_goes_on() {
    let mut vm = Vm::new(Limits { memory_bytes_max: 32 << 20, ..Limits::default() });
    for source in HARMFUL {
        let (ran, reply) = run_with(&mut vm, source.as_bytes(), Proto::Resp2, &mut Fake::default());
        assert!(ran == Ran::Failed && reply.starts_with("-ERR "), "{source}: {reply}");
        assert_eq!(
            run_with(&mut vm, b"return 1", Proto::Resp2, &mut Fake::default()),
            (Ran::Done, ":1|".into())
        );
        assert!(vm.memory_bytes() < 16 << 20, "{source} left {}", vm.memory_bytes());
    }
}

#[test]
fn nothing_is_left_to_the_next_script() {
    let mut vm = Vm::default();
    let mut fake = Fake::default();
    for source in [
        "rawset(_G, 'x', 1)",
        "table.insert(_G, 1)",
        "setmetatable(_G, {})",
        "string.x = 1",
        "getmetatable('').__index.x = 1",
        "getmetatable(_G).__index = nil",
        "KEYS.x = 1 redis.setresp(3)",
        "collectgarbage('stop')",
        "for k, v in pairs(_G) do if type(v) == 'table' and k ~= 'KEYS' and k ~= 'ARGV' then v.x = 1 end end",
    ] {
        run_with(&mut vm, source.as_bytes(), Proto::Resp2, &mut fake);
    }
    let source = "return {rawget(_G, 'x') or 0, #_G, string.x or 0, KEYS.x or 0, #getmetatable('').__index, table.x or 0}";
    let (_, reply) = run_with(&mut vm, source.as_bytes(), Proto::Resp2, &mut fake);
    assert_eq!(reply, "*6|:0|:0|:0|:0|:0|:0|");
}

#[test]
fn large_sources_and_values() {
    let mut vm = Vm::default();
    let comment = [b"--".as_slice(), &vec![b'x'; 64 << 20], b"\nreturn 1"].concat();
    assert_eq!(run_with(&mut vm, &comment, Proto::Resp2, &mut Fake::default()).1, ":1|");
    let deep = "local t = {} local r = t for i = 1, 100000 do local n = {} t[1] = n t = n end return r";
    let (_, reply) = run_with(&mut vm, deep.as_bytes(), Proto::Resp2, &mut Fake::default());
    assert!(reply.ends_with("*1|-ERR reached lua stack limit|"), "{}", &reply[reply.len() - 60..]);
    assert_eq!(
        run_with(&mut vm, b"return #redis.call('shared')", Proto::Resp2, &mut Fake::default()).1,
        ":20000|"
    );
}

#[test]
fn log_lines_reach_the_host() {
    let mut fake = Fake::default();
    run_with(&mut Vm::default(), b"redis.log(redis.LOG_WARNING, 'a', 5, {}, 'b')", Proto::Resp2, &mut fake);
    assert_eq!(fake.logged, [(Level::Warning, b"a 5 b".to_vec())]);
}
