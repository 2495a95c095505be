//! Tests of rules and decisions with a small catalogue.

use std::sync::Arc;

use command::{Categories, Flags, Group, KeyFlags, KeySpec, Spec};
use resp::OwnedArgs;

use crate::patterns::{Access, Patterns};
use crate::user::{Defaults, User};
use crate::users::{Users, line};
use crate::{Catalog, Reason};

const PLAIN: Spec = Spec {
    name: "PING",
    summary: "",
    complexity: "",
    since: "",
    group: Group::Generic,
    arity: -1,
    flags: Flags::FAST,
    explicit: Categories::NONE,
    keys: &[],
    tips: &[],
    syntax: "",
};
static PING: Spec = PLAIN;
static GET: Spec = Spec {
    name: "GET",
    flags: Flags::READONLY.with(Flags::FAST),
    explicit: Categories::STRING,
    keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
    ..PLAIN
};
static SET: Spec = Spec {
    name: "SET",
    flags: Flags::WRITE,
    explicit: Categories::STRING,
    keys: &[KeySpec::first(
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE).with(KeyFlags::VARIABLE_FLAGS),
    )],
    ..PLAIN
};
static SELECT: Spec = Spec { name: "SELECT", ..PLAIN };
static CONFIG: Spec = Spec { name: "CONFIG", flags: Flags::NONE, ..PLAIN };
static CONFIG_GET: Spec = Spec { name: "GET", flags: Flags::ADMIN, ..PLAIN };
static CONFIG_SET: Spec = Spec { name: "SET", flags: Flags::ADMIN, ..PLAIN };
static PUBLISH: Spec = Spec { name: "PUBLISH", flags: Flags::PUBSUB, ..PLAIN };

fn catalog() -> Catalog {
    let rows: [(&str, &'static Spec); 8] = [
        ("ping", &PING),
        ("get", &GET),
        ("set", &SET),
        ("select", &SELECT),
        ("config", &CONFIG),
        ("config|get", &CONFIG_GET),
        ("config|set", &CONFIG_SET),
        ("publish", &PUBLISH),
    ];
    Catalog::new(rows.iter().enumerate().map(|(number, (name, spec))| (number, *name, *spec)), 16)
}

const DEFAULTS: Defaults = Defaults { all_channels: false };

fn user(catalog: &Catalog, rules: &str) -> User {
    let rules: Vec<&str> = rules.split(' ').collect();
    let words: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
    let merged = crate::parse::merge_selectors(&words).unwrap();
    User::new(catalog, b"u", DEFAULTS).changed(catalog, DEFAULTS, &merged).unwrap_or_else(|(at, error)| {
        panic!("{}: {}", rules[at], error.text());
    })
}

fn ask(catalog: &Catalog, user: &User, command: &str, db: u16) -> Result<(), (Reason, usize)> {
    let words = OwnedArgs::from_words(command.split(' '));
    let args = words.as_args();
    let name = args[0].to_ascii_lowercase();
    let number = match args.get(1) {
        Some(sub) if name == b"config" => catalog.find(&[&name[..], b"|", sub].concat()),
        _ => catalog.find(&name),
    };
    catalog.check(user, number.unwrap(), args, db).map_err(|denied| (denied.reason, denied.word))
}

fn told(catalog: &Catalog, rules: &str) -> String {
    String::from_utf8(user(catalog, rules).describe()).unwrap()
}

#[test]
fn rules_are_written_as_they_were_given_without_what_they_cover() {
    let catalog = catalog();
    for (rules, wanted) in [
        ("on nopass", "on nopass resetchannels -@all"),
        ("+get +config|get +config", "off resetchannels -@all +get +config"),
        ("+@all -config|set -@string +GET", "off resetchannels +@all -config|set -@string +get"),
        ("+select|0 +SELECT|1 +select|0", "off resetchannels -@all +select|1 +select|0"),
        ("~a %R~b %w~b %RW~c &x db=3,1,3", "off ~a ~b ~c resetchannels &x db=1,3 -@all"),
        (
            "resetdbs ( ~a +get ) (+@all)",
            "off resetchannels resetdbs -@all (~a resetchannels -@all +get) (resetchannels +@all)",
        ),
        ("~a ~* allchannels allcommands", "off ~* &* +@all"),
    ] {
        assert_eq!(told(&catalog, rules), wanted, "{rules}");
        // What is written gives the same user again.
        assert_eq!(told(&catalog, wanted), wanted);
    }
}

#[test]
fn keys_are_allowed_by_what_is_done_with_them() {
    let catalog = catalog();
    let user = user(&catalog, "+@all ~both %R~read* %W~write?");
    for (command, wanted) in [
        ("get both", Ok(())),
        ("get read1", Ok(())),
        ("get write1", Err((Reason::Key, 1))),
        ("set write1 x", Ok(())),
        ("set write1 x get", Err((Reason::Key, 1))),
        ("set write12 x", Err((Reason::Key, 1))),
        ("set read1 x", Err((Reason::Key, 1))),
        ("get other", Err((Reason::Key, 1))),
    ] {
        assert_eq!(ask(&catalog, &user, command, 0), wanted, "{command}");
    }
}

#[test]
fn the_selector_that_came_furthest_tells_why() {
    let catalog = catalog();
    let user = user(&catalog, "+get ~a (+set ~b db=1) (+publish &news) +select|0");
    for (command, db, wanted) in [
        ("get a", 0, Ok(())),
        ("get b", 0, Err((Reason::Key, 1))),
        ("set b 1", 1, Ok(())),
        ("set b 1", 0, Err((Reason::Command, 0))),
        ("publish news x", 0, Ok(())),
        ("publish other x", 0, Err((Reason::Channel, 1))),
        ("config get x", 0, Err((Reason::Command, 0))),
        ("select 0", 0, Ok(())),
        ("select 1", 0, Err((Reason::Command, 0))),
    ] {
        assert_eq!(ask(&catalog, &user, command, db), wanted, "{command} in {db}");
    }
}

#[test]
fn passwords_come_and_go() {
    let catalog = catalog();
    let with = user(&catalog, "on >a >b >a <b");
    assert!(with.accepts(b"a") && !with.accepts(b"b") && with.passwords().len() == 1);
    assert!(!user(&catalog, ">a off").accepts(b"a"), "a user that is off logs in with no password");
    assert!(user(&catalog, "on >a nopass").accepts(b"anything"));
    assert!(!user(&catalog, "on nopass resetpass").accepts(b""));
}

/// Random sets of patterns against the glob itself, one by one.
#[test]
fn patterns_are_found_as_one_by_one() {
    let seed = std::env::var("DARTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
    });
    println!("DARTER_SEED={seed}");
    let mut rng = stdx::rng::Rng::new(seed);
    let mut word = |letters: &[u8], max: u64| -> Vec<u8> {
        let len = rng.next_u64() % (max + 1);
        (0..len).map(|_| letters[(rng.next_u64() % letters.len() as u64) as usize]).collect()
    };
    for _ in 0..2000 {
        let mut patterns = Patterns::default();
        let mut model: Vec<(Vec<u8>, Access)> = Vec::new();
        for round in 0..12 {
            let mut text = word(if round % 2 == 0 { b"abab*" } else { b"ab*?[]\\^-" }, 5);
            if round % 4 < 2 {
                text.splice(0..0, *b"a-long-head:");
            }
            let access = [Access::READ, Access::WRITE, Access::ALL][round % 3];
            patterns.add(&text, access);
            match model.iter_mut().find(|(known, _)| *known == text) {
                Some((_, known)) => *known = known.with(access),
                None => model.push((text, access)),
            }
        }
        patterns.finish();
        for _ in 0..20 {
            let mut name = word(b"abab*?[]\\-", 6);
            if name.len() % 2 == 0 {
                name.splice(0..0, *b"a-long-head:");
            }
            for access in [Access::NONE, Access::READ, Access::WRITE, Access::ALL] {
                let wanted = model
                    .iter()
                    .any(|(text, has)| has.has(access) && stdx::glob::matches(text, &name, false));
                let shown: Vec<_> = model.iter().map(|(text, _)| text.escape_ascii().to_string()).collect();
                assert_eq!(patterns.allows(&name, access), wanted, "{shown:?} {}", name.escape_ascii());
            }
        }
    }
}

#[test]
fn a_file_is_taken_as_a_whole_or_not_at_all() {
    let catalog = catalog();
    let good = b"user a on nopass ~x +@all\n\n  user b off (~y +get)\r\n";
    let users = Users::parse(&catalog, DEFAULTS, good, "f").unwrap_or_else(|error| panic!("{error}"));
    let lines: Vec<String> = users.lines().map(|line| String::from_utf8(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            "user a on nopass ~x resetchannels +@all",
            "user b off resetchannels -@all (~y resetchannels -@all +get)",
            "user default on nopass ~* &* +@all",
        ]
    );
    let bad = b"user a on\nuser b foo bar\n# no\nuser a off\nuser c (+get\nuser d +nope +no foo\n";
    assert_eq!(
        Users::parse(&catalog, DEFAULTS, bad, "f").err().as_deref(),
        Some(
            "f:2: Syntax error. f:3 should start with user keyword followed by the username. WARNING: Duplicate user 'a' found on line 4. \
             f:5: Unmatched parenthesis in selector definition.f:6: Error in applying operation '+nope': Unknown command or category name \
             in ACL. f:6: Error in applying operation '+no': Unknown command or category name in ACL. f:6: Syntax error. WARNING: ACL \
             errors detected, no change to the previously active ACL rules was performed"
        )
    );
}

#[test]
fn ten_thousand_patterns_and_users() {
    let catalog = catalog();
    let rules: Vec<String> = (0..10_000)
        .map(|n| match n % 3 {
            0 => format!("~key:{n}"),
            1 => format!("%R~prefix:{n}:*"),
            _ => format!("%W~glob:{n}:*:x"),
        })
        .collect();
    let user = User::new(&catalog, b"u", DEFAULTS).changed(&catalog, DEFAULTS, &rules);
    let user = user.unwrap_or_else(|(at, error)| panic!("{at}: {}", error.text()));
    let user =
        user.changed(&catalog, DEFAULTS, &["+@all"]).unwrap_or_else(|(_, error)| panic!("{}", error.text()));
    assert_eq!(ask(&catalog, &user, "get key:9999", 0), Ok(()));
    assert_eq!(ask(&catalog, &user, "get prefix:1:1", 0), Ok(()));
    assert_eq!(ask(&catalog, &user, "set glob:2:a:x 1", 0), Ok(()));
    assert_eq!(ask(&catalog, &user, "get glob:2:a:x", 0), Err((Reason::Key, 1)));
    assert_eq!(ask(&catalog, &user, "get key:10000", 0), Err((Reason::Key, 1)));
    let mut users = Users::new(&catalog);
    for n in 0..10_000 {
        users.put(Arc::new(User::new(&catalog, format!("user{n}").as_bytes(), DEFAULTS)));
    }
    assert_eq!(users.iter().len(), 10_001);
    assert_eq!(line(users.get(b"user7").unwrap()), b"user user7 off resetchannels -@all");
}
