//! Tests of options and dialects: published command lines mean what they mean where they come from.

use std::time::Duration;

use crate::args::Options;
use crate::client::Address;
use crate::pace::Pace;
use crate::plan::Plan;

fn plan(text: &str) -> Plan {
    let words = stdx::quote::split_args(text.as_bytes()).unwrap();
    let words = words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
    Options::parse(words).unwrap().plan(text).unwrap()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.tests.iter().map(|test| test.name.as_str()).collect()
}

#[test]
fn valkey_counts_in_total() {
    let plan = plan("-h db -p 7000 -c 100 -n 1000000 -d 256 -P 16 -t set,get -r 1000 --threads 4");
    assert_eq!(plan.address, Address::Tcp { host: "db".into(), port: 7000 });
    assert_eq!((plan.connections, plan.threads, plan.pipeline), (100, 4, 16));
    assert_eq!((plan.requests, plan.duration), (Some(1_000_000), None));
    assert_eq!(names(&plan), ["SET", "GET"]);
    assert_eq!((plan.context.keys.maximum(), plan.setup.data_size.as_str()), (999, "256"));
    assert!(plan.context.ints && plan.pace == Pace::Closed);
    let plan = self::plan("--rps 5000 --duration 10 -s /tmp/x.sock");
    assert_eq!(
        (plan.pace, plan.duration, plan.requests),
        (Pace::Constant(5000.0), Some(Duration::from_secs(10)), None)
    );
    assert_eq!((plan.address, plan.tests.len()), (Address::Unix("/tmp/x.sock".into()), 22));
}

#[test]
fn valkey_commands_behind_the_options() {
    let plan = plan("-r 100 -n 10 -- multi ';' 2 set key:__rand_int__ __data__ ';' exec");
    assert_eq!(plan.tests[0].round(), 4);
    let plan = self::plan("-n 10 lpush mylist -5");
    assert_eq!(
        (plan.tests[0].commands[0].name.as_str(), plan.tests[0].commands[0].template.words()),
        ("LPUSH", 3)
    );
}

#[test]
fn dfly_counts_per_thread_and_connection() {
    let line = "--dialect dfly --h=db --p=6380 --c=10 --n=500 --qps=100 --proactor_threads=3 --key_maximum=5000 --ratio=1:0 --d=100 --pipeline=4";
    let plan = plan(line);
    assert_eq!(plan.address, Address::Tcp { host: "db".into(), port: 6380 });
    assert_eq!((plan.connections, plan.threads, plan.pipeline, plan.requests), (30, 3, 4, Some(15_000)));
    assert_eq!(plan.pace, Pace::Constant(3000.0));
    assert_eq!((names(&plan), plan.context.keys.maximum()), (vec!["SET"], 5000));
    let plan =
        self::plan("--dialect dfly --proactor_threads 1 --qps=0 --command 'ZADD __key__ __score__ __data__'");
    assert_eq!((plan.pace, plan.connections, plan.requests), (Pace::Closed, 20, Some(20_000)));
    assert_eq!(plan.tests[0].commands[0].name, "ZADD");
}

#[test]
fn memtier_counts_per_thread_and_client() {
    let line = "--dialect memtier -s db -t 2 -c 5 -n 100 --ratio=0:1 --pipeline=10 -P resp3 --key-pattern=S:R -a me:secret";
    let plan = plan(line);
    assert_eq!(plan.address, Address::Tcp { host: "db".into(), port: 6379 });
    assert_eq!((plan.connections, plan.threads, plan.pipeline, plan.requests), (10, 2, 10, Some(1000)));
    assert!(plan.login.resp3 && plan.context.key_prefix == b"memtier-");
    assert_eq!((plan.login.user.as_deref(), plan.login.password.as_deref()), (Some("me"), Some("secret")));
    self::plan("--dialect memtier --distinct-client-seed --randomize");
    let line = "--dialect memtier --command='SET __key__ __data__' --command-ratio=3 --command='GET __key__' --data-size-range=5-9 --test-time=7";
    let plan = self::plan(line);
    assert_eq!((plan.requests, plan.duration), (None, Some(Duration::from_secs(7))));
    assert_eq!((plan.setup.data_size.as_str(), plan.connections), ("5-9", 200));
    assert!(matches!(&plan.tests[0].order, crate::workload::Order::Weighted(weights) if *weights == [3, 1]));
    assert!(
        Options::parse(vec!["--dialect=memtier".into(), "--key-pattern=S:R".into()])
            .unwrap()
            .plan("")
            .is_err()
    );
}

#[test]
fn addresses_as_uris() {
    let plan = plan("-u valkey://me:p%40ss@db:7001/3 -t ping");
    assert_eq!(plan.address, Address::Tcp { host: "db".into(), port: 7001 });
    assert_eq!(
        (plan.login.user.as_deref(), plan.login.password.as_deref(), plan.login.db),
        (Some("me"), Some("p@ss"), 3)
    );
    let plan = self::plan("-u redis://:x@[::1]");
    assert_eq!(plan.address, Address::Tcp { host: "::1".into(), port: 6379 });
    assert_eq!((plan.login.user, plan.login.password.as_deref()), (None, Some("x")));
}

#[test]
fn ramps_last_as_long_as_they_say() {
    let plan = plan("--ratio 1:1 --ramp 10k:500k:60s --max-p99 1ms");
    assert_eq!(
        (plan.duration, plan.requests, plan.p99_max),
        (Some(Duration::from_secs(60)), None, Some(Duration::from_millis(1)))
    );
    assert_eq!(plan.pace.rate(), Some(500_000.0));
}
