//! The tests that valkey-benchmark 9.1 knows by name, with the keys and arguments that it uses, so that figures can be compared.

use super::{Command, Order, Test};
use crate::fault::{Fault, Result};
use crate::template::{Context, Template};

/// A test: what `-t` calls it, what chooses it too, what tables call it, what it sends.
struct Named {
    name: &'static str,
    group: &'static str,
    title: &'static str,
    text: &'static str,
}

const fn row(name: &'static str, group: &'static str, title: &'static str, text: &'static str) -> Named {
    Named { name, group, title, text }
}

/// In the order in which they run. `%` stands for what comes behind fixed names: nothing, or in a cluster `:{tag}`.
const TESTS: &[Named] = &[
    row("ping_inline", "ping", "PING_INLINE", "PING"),
    row("ping_mbulk", "ping", "PING_MBULK", "PING"),
    row("set", "set", "SET", "SET key%:__rand_int__ __data__"),
    row("get", "get", "GET", "GET key%:__rand_int__"),
    row("incr", "incr", "INCR", "INCR counter%:__rand_int__"),
    row("lpush", "lpush", "LPUSH", "LPUSH mylist% __data__"),
    row("rpush", "rpush", "RPUSH", "RPUSH mylist% __data__"),
    row("lpop", "lpop", "LPOP", "LPOP mylist%"),
    row("rpop", "rpop", "RPOP", "RPOP mylist%"),
    row("sadd", "sadd", "SADD", "SADD myset% element:__rand_int__"),
    row("hset", "hset", "HSET", "HSET myhash% element:__rand_int__ __data__"),
    row("spop", "spop", "SPOP", "SPOP myset%"),
    row("zadd", "zadd", "ZADD", "ZADD myzset% __rand_int__ element:__rand_int__"),
    row("zpopmin", "zpopmin", "ZPOPMIN", "ZPOPMIN myzset%"),
    row(FOR_LRANGE, "lrange", "LPUSH (needed to benchmark LRANGE)", "LPUSH mylist% __data__"),
    row("lrange_100", "lrange", "LRANGE_100 (first 100 elements)", "LRANGE mylist% 0 99"),
    row("lrange_300", "lrange", "LRANGE_300 (first 300 elements)", "LRANGE mylist% 0 299"),
    row("lrange_500", "lrange", "LRANGE_500 (first 500 elements)", "LRANGE mylist% 0 499"),
    row("lrange_600", "lrange", "LRANGE_600 (first 600 elements)", "LRANGE mylist% 0 599"),
    row("mset", "mset", "MSET (10 keys)", "MSET"),
    row("mget", "mget", "MGET (10 keys)", "MGET"),
    row("xadd", "xadd", "XADD", "XADD mystream% * myfield __data__"),
    row("function_load", "function_load", "FUNCTION_LOAD", "FUNCTION LOAD REPLACE"),
    row("fcall", "fcall", "FCALL", "FCALL foo1 1 key%"),
];

/// The test that fills the list for the LRANGE tests.
const FOR_LRANGE: &str = "lpush (for lrange)";
/// Names of functions of the library that `function_load` loads.
const FUNCTIONS: usize = 10;
/// Keys of MSET and MGET.
const MULTIPLE: usize = 10;

/// Every name that `-t` takes, groups included.
pub const NAMES: &[&str] = &[
    "ping",
    "ping_inline",
    "ping_mbulk",
    "set",
    "get",
    "incr",
    "lpush",
    "rpush",
    "lpop",
    "rpop",
    "sadd",
    "hset",
    "spop",
    "zadd",
    "zpopmin",
    "lrange",
    "lrange_100",
    "lrange_300",
    "lrange_500",
    "lrange_600",
    "mset",
    "mget",
    "xadd",
    "function_load",
    "fcall",
];

/// What runs if nothing is asked for: all but those that need scripting.
#[must_use]
pub fn default_names() -> Vec<&'static str> {
    let all = TESTS.iter().map(|test| test.name);
    all.filter(|name| !matches!(*name, FOR_LRANGE | "function_load" | "fcall")).collect()
}

/// The tests that `names` choose, in their fixed order, each once.
pub fn by_name(names: &[&str], context: &Context) -> Result<Vec<Test>> {
    let names: Vec<String> = names.iter().map(|name| name.trim().to_lowercase()).collect();
    for name in &names {
        if !NAMES.contains(&name.as_str()) {
            return Err(Fault::new(format!("there is no test {name}: -t takes {}", NAMES.join(","))));
        }
    }
    let lists = names.iter().any(|name| name.starts_with("lrange"));
    let wanted = |test: &&Named| {
        let chosen = |name: &String| name == test.name || name == test.group && test.name != FOR_LRANGE;
        names.iter().any(chosen) || test.name == FOR_LRANGE && lists
    };
    TESTS.iter().filter(wanted).map(|test| build(test, context)).collect()
}

fn build(test: &Named, context: &Context) -> Result<Test> {
    let tag = if context.tags { ":{tag}" } else { "" };
    let mut words: Vec<Vec<u8>> =
        test.text.replace('%', tag).split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let key = format!("key{tag}:__rand_int__").into_bytes();
    let mut setup = Vec::new();
    match test.name {
        "mset" => (0..MULTIPLE).for_each(|_| words.extend([key.clone(), b"__data__".to_vec()])),
        "mget" => (0..MULTIPLE).for_each(|_| words.push(key.clone())),
        "function_load" => words.push(library(FUNCTIONS)),
        "fcall" => {
            setup.push([&b"FUNCTION"[..], b"LOAD", b"REPLACE", &library(1)].map(<[u8]>::to_vec).to_vec())
        }
        _ => {}
    }
    let mut command = Command::new(&words, context)?;
    if test.name == "ping_inline" {
        command.template = Template::raw(b"PING\r\n");
    }
    Ok(Test { name: test.title.into(), commands: vec![command], order: Order::Weighted(vec![1]), setup })
}

/// A library of functions that give back their first key.
fn library(functions: usize) -> Vec<u8> {
    let mut text = "#!lua name=benchlib\n".to_string();
    for number in 1..=functions {
        text.push_str(&format!(
            "local function foo{number}(keys, args)\nreturn keys[1]\nend\nredis.register_function('foo{number}', foo{number})\n"
        ));
    }
    text.into_bytes()
}
