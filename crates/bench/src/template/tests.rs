//! Tests of templates.

use super::*;
use crate::data::{Kind, Sizes};
use crate::keys::Distribution;

fn context(distribution: Distribution, sizes: Sizes) -> Context {
    Context {
        keys: Sampler::new(distribution, 8, 12).unwrap(),
        key_prefix: b"key:".to_vec(),
        ints: true,
        tags: false,
        data: Data::new(sizes, Kind::Constant, 1),
        verify: false,
        expiry: Some((5, 5)),
    }
}

fn chance(seed: u64) -> Chance {
    let counters = std::array::from_fn(|_| Counter::Own { next: 0, stride: 1 });
    Chance { rng: Rng::new(seed), counters, tag: *b"{0AB}" }
}

fn words(text: &str) -> Vec<Vec<u8>> {
    stdx::quote::split_args(text.as_bytes()).unwrap()
}

fn requests(text: &str, context: &Context, count: usize) -> Vec<String> {
    let template = Template::new(&words(text), context).unwrap();
    let mut chance = chance(1);
    (0..count)
        .map(|_| {
            let mut out = Vec::new();
            template.write(context, &mut chance, &mut out);
            String::from_utf8(out).unwrap()
        })
        .collect()
}

#[test]
fn keys_vary_in_width() {
    let context = context(Distribution::Sequential, Sizes::Fixed(3));
    let seen = requests("SET __key__ __data__", &context, 3);
    assert_eq!(seen[0], "*3\r\n$3\r\nSET\r\n$5\r\nkey:8\r\n$3\r\nxxx\r\n");
    assert_eq!(seen[2], "*3\r\n$3\r\nSET\r\n$6\r\nkey:10\r\n$3\r\nxxx\r\n");
}

#[test]
fn integers_are_padded_and_numbered_ones_repeat() {
    let context = context(Distribution::Sequential, Sizes::Fixed(1));
    let seen = requests("ZADD z __rand_int__ e:__rand_1st__:__rand_1st__:__rand_int__", &context, 2);
    let (a, b) = ("000000000008", "000000000009");
    assert_eq!(seen[0], format!("*4\r\n$4\r\nZADD\r\n$1\r\nz\r\n$12\r\n{a}\r\n$40\r\ne:{a}:{a}:{b}\r\n"));
    let (c, d) = ("000000000010", "000000000011");
    assert_eq!(seen[1], format!("*4\r\n$4\r\nZADD\r\n$1\r\nz\r\n$12\r\n{c}\r\n$40\r\ne:{b}:{b}:{d}\r\n"));
}

#[test]
fn without_a_range_integers_stay_and_tags_need_a_cluster() {
    let mut context = context(Distribution::Uniform, Sizes::Fixed(1));
    context.ints = false;
    let seen = requests("GET key:{tag}:__rand_int__", &context, 1);
    assert_eq!(seen[0], "*2\r\n$3\r\nGET\r\n$22\r\nkey:{tag}:__rand_int__\r\n");
    context.tags = true;
    let seen = requests("GET key:{tag}:__rand_2nd__", &context, 1);
    assert_eq!(seen[0], "*2\r\n$3\r\nGET\r\n$22\r\nkey:{0AB}:__rand_2nd__\r\n");
}

#[test]
fn varying_sizes_scores_and_expiry() {
    let context = context(Distribution::Uniform, Sizes::Range(1, 300));
    for request in requests("X a__data__b__key__ __score__ __expiry__", &context, 50) {
        let args = resp_words(request.as_bytes());
        assert_eq!(args.len(), 4, "{request}");
        let (data, key) = args[1].strip_prefix('a').unwrap().split_once('b').unwrap();
        assert!((1..=300).contains(&data.len()) && data.bytes().all(|byte| byte == b'x'));
        assert!((8..=12).contains(&key.strip_prefix("key:").unwrap().parse::<u64>().unwrap()));
        assert!(args[2].parse::<u64>().unwrap() < SCORE_END);
        assert_eq!(args[3], "5");
    }
}

/// The words of one encoded command, checked strictly.
fn resp_words(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (head, mut rest) = text.split_once("\r\n").unwrap();
    let count: usize = head.strip_prefix('*').unwrap().parse().unwrap();
    let words = (0..count)
        .map(|_| {
            let (head, behind) = rest.split_once("\r\n").unwrap();
            let length: usize = head.strip_prefix('$').unwrap().parse().unwrap();
            rest = behind[length..].strip_prefix("\r\n").unwrap();
            behind[..length].to_string()
        })
        .collect();
    assert_eq!(rest, "");
    words
}

#[test]
fn placeholders_that_do_not_exist() {
    let context = context(Distribution::Uniform, Sizes::Fixed(1));
    for text in ["GET __kye__", "GET __rand_10th__", "SET a__b__ c"] {
        let error = Template::new(&words(text), &context).unwrap_err().to_string();
        assert!(error.contains("no placeholder"), "{error}");
    }
    for text in ["GET __a", "GET ____", "SUBSCRIBE __keyspace@0__:a", "GET a_b_c"] {
        let seen = requests(text, &context, 1);
        assert!(seen[0].contains(text.split(' ').nth(1).unwrap()));
    }
}

#[test]
fn a_verified_value_follows_from_its_key() {
    let mut context = context(Distribution::Sequential, Sizes::Range(1, 40));
    context.verify = true;
    context.data = Data::new(Sizes::Range(1, 40), Kind::Compressible, 3);
    let template = Template::new(&words("SET __key__ __data__"), &context).unwrap();
    let (mut chance, mut out) = (chance(5), Vec::new());
    let key = template.write(&context, &mut chance, &mut out);
    assert_eq!(key, 8);
    assert!(out.windows(context.data.of_key(8).len()).any(|part| part == context.data.of_key(8)));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let context = context(Distribution::Zipfian { alpha: 0.99 }, Sizes::Weighted(vec![(3, 1), (30, 2)]));
    let template = Template::new(&words("SET __key__:__rand_3rd__ __data__ EX __score__"), &context).unwrap();
    let stream = |seed| {
        let (mut chance, mut out) = (chance(seed), Vec::new());
        for _ in 0..1000 {
            template.write(&context, &mut chance, &mut out);
        }
        out
    };
    assert_eq!(stream(1), stream(1));
    assert_ne!(stream(1), stream(2));
}

#[test]
fn many_at_once_are_the_same_as_one_by_one() {
    let mut context = context(Distribution::Uniform, Sizes::Fixed(7));
    context.keys = Sampler::new(Distribution::Uniform, 0, 999_999_999_999).unwrap();
    context.data = Data::new(Sizes::Fixed(7), Kind::Random, 1);
    for text in
        ["SET key:__rand_int__ __data__", "PING", "MSET a__rand_int__ __data__ __rand_int__b x__data__"]
    {
        let template = Template::new(&words(text), &context).unwrap();
        let (mut one, mut many) = (Vec::new(), Vec::new());
        let mut first = chance(9);
        (0..37).for_each(|_| drop(template.write(&context, &mut first, &mut one).to_string()));
        assert!(template.write_many(&context, &mut chance(9), 37, &mut many));
        assert!(one == many, "{text}");
    }
    let template = Template::new(&words("GET __key__"), &context).unwrap();
    assert!(!template.write_many(&context, &mut chance(9), 37, &mut Vec::new()));
}

#[test]
fn digits_by_lanes() {
    for number in [0, 9, 10, 99, 100, 9_999, 10_000, 12_345_678, 99_999_999, 990_099, 1_000_001] {
        assert_eq!(eight_digits(number), *format!("{number:08}").as_bytes());
    }
    assert!(
        (0..100_000_000)
            .step_by(997)
            .all(|number| eight_digits(number) == *format!("{number:08}").as_bytes())
    );
}
