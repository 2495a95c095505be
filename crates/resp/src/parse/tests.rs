//! Requests: by hand, as valkey-server judges them, and at random against a plain parser, in pieces of every size.

use super::*;
use crate::Args;
use stdx::rng::Rng;

type Words = Vec<Vec<u8>>;
type Outcome = (Vec<Words>, usize, Option<ProtocolError>);

/// Feeds `input` in pieces that end at `ends` (and at its end): the commands, where the last one ended, and the
/// error if there was one.
fn parse_in_pieces(input: &[u8], ends: &[usize], limits: &ParseLimits) -> Outcome {
    let mut partial = Partial::default();
    let mut commands = Vec::new();
    let mut at = 0;
    for end in ends.iter().copied().chain([input.len()]) {
        loop {
            let arrived = &input[at..end];
            let mut spans = vec![Span { start: 7, len: 7 }];
            match parse(arrived, &mut partial, &mut spans, limits) {
                Ok(Some(taken)) => {
                    assert!(partial.is_empty() && partial.bytes_wanted() == 0);
                    let unquoted = partial.take_unquoted();
                    let args = Args::new(unquoted.as_deref().unwrap_or(&arrived[..taken]), &spans[1..]);
                    commands.push(args.iter().map(<[u8]>::to_vec).collect());
                    at += taken;
                }
                Ok(None) => {
                    assert_eq!(spans.len(), 1, "words of a partial command stay with it");
                    assert_eq!(partial.is_empty(), arrived.is_empty());
                    let bound = 4 * arrived.len() + 64;
                    assert!(partial.bytes_allocated() <= bound, "memory follows the bytes that arrived");
                    break;
                }
                Err(error) => return (commands, at, Some(error)),
            }
        }
    }
    (commands, at, None)
}

fn parse_all(input: &[u8]) -> Outcome {
    parse_in_pieces(input, &[], &ParseLimits::default())
}

fn error_of(input: &[u8], limits: &ParseLimits) -> Option<ProtocolError> {
    parse_in_pieces(input, &[], limits).2
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn encode(words: &Words) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[test]
fn pipelined_commands() {
    let input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*1\r\n$0\r\n\r\n\r\n*0\r\n*-1\r\nset a \"b c\"\n*1\r\n$4\r\nPI";
    let expected = [
        words(&["GET", "k"]),
        words(&["PING"]),
        words(&[""]),
        words(&[]),
        words(&[]),
        words(&[]),
        words(&["set", "a", "b c"]),
    ];
    assert_eq!(parse_all(input), (expected.to_vec(), input.len() - 10, None));
}

#[test]
fn any_bytes_in_words_and_lengths_of_one_to_five_digits() {
    for len in [0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10_000, 12_345] {
        let command = vec![b"\r\n*$".repeat(len / 4 + 1)[..len].to_vec(), b"\0\xff".to_vec()];
        assert_eq!(parse_all(&encode(&command)).0, [command]);
    }
}

/// Every answer here was compared with valkey-server 9.1.2 over a socket.
#[test]
fn requests_that_break_the_protocol() {
    use ProtocolError::*;
    for (input, expected) in [
        (&b"*1\r\n+PING\r\n"[..], Some(ExpectedDollar(b'+'))),
        (b"*1\r\n\0PING\r\n", Some(ExpectedDollar(0))),
        (b"*1\r\n\rPING\r\n", Some(ExpectedDollar(b'\r'))),
        (b"*1\r\nx\rx", Some(ExpectedDollar(b'x'))),
        (b"*1\r\nPING", None),
        (b"*01\r\n$4\r\nPING\r\n", Some(InvalidMultibulkLen)),
        (b"*+1\r\n", Some(InvalidMultibulkLen)),
        (b"* 1\r\n", Some(InvalidMultibulkLen)),
        (b"*\r\n", Some(InvalidMultibulkLen)),
        (b"*-0\r\n", Some(InvalidMultibulkLen)),
        (b"*-5\r\n", None),
        (b"*2147483647\r\n", None),
        (b"*2147483648\r\n", Some(InvalidMultibulkLen)),
        (b"*9999999999999999999\r\n", Some(InvalidMultibulkLen)),
        (b"*0\rx", Some(InvalidCrlf)),
        (b"*x\rx", Some(InvalidCrlf)),
        (b"*1\r", None),
        (b"*1\n$4\nPING\n", None),
        (b"*1\r\n$04\r\nPING\r\n", Some(InvalidBulkLen)),
        (b"*1\r\n$00\r\n\r\n", Some(InvalidBulkLen)),
        (b"*1\r\n$-1\r\n", Some(InvalidBulkLen)),
        (b"*1\r\n$\r\n", Some(InvalidBulkLen)),
        (b"*1\r\n$4xPING\r\n", Some(InvalidBulkLen)),
        (b"*1\r\n$4\nPING\r\n", Some(InvalidBulkLen)),
        (b"*1\r\n$536870912\r\n", None),
        (b"*1\r\n$536870913\r\n", Some(InvalidBulkLen)),
        (b"*1\r\n$9999999999\r\n", Some(InvalidBulkLen)),
        (b"*1\r\n$x\rx", Some(InvalidCrlf)),
        (b"*1\r\n$4\rx", Some(InvalidCrlf)),
        (b"*1\r\n$4\r\nPINGx\n", Some(InvalidCrlf)),
        (b"*1\r\n$4\r\nPING\rx", Some(InvalidCrlf)),
        (b"*1\r\n$4\r\nPINGx", None),
        (b"ECHO \"a\r\n", Some(UnbalancedQuotes)),
        (b"ECHO 'a\\\r\n", Some(UnbalancedQuotes)),
        (b"ECHO \"a\0b\"\r\n", None),
    ] {
        assert_eq!(error_of(input, &ParseLimits::default()), expected, "{}", input.escape_ascii());
    }
}

#[test]
fn errors_in_their_words() {
    let reply = |error: ProtocolError| String::from_utf8(error.reply_text()).unwrap();
    assert_eq!(reply(ProtocolError::UnbalancedQuotes), "ERR Protocol error: unbalanced quotes in request");
    assert_eq!(reply(ProtocolError::ExpectedDollar(b'x')), "ERR Protocol error: expected '$', got 'x'");
    assert_eq!(ProtocolError::ExpectedDollar(b'x').to_string(), "expected '$', got 'x'");
    assert_eq!(ProtocolError::InvalidBulkLen.to_string(), "invalid bulk length");
    // A byte beyond ASCII is sent back as it came.
    assert!(ProtocolError::ExpectedDollar(0xff).reply_text().ends_with(b"got '\xff'"));
}

#[test]
fn lines_without_an_end() {
    let limits = ParseLimits::default();
    for (start, error) in [
        (&b"x"[..], ProtocolError::InlineTooBig),
        (b"x\0\n", ProtocolError::InlineTooBig),
        (b"*", ProtocolError::MultibulkCountTooBig),
        (b"*1\r\n$", ProtocolError::BulkCountTooBig),
    ] {
        let line_start = start.len().min(if start.len() == 5 { 4 } else { 0 });
        let line = |len: usize| [start, &vec![b'1'; len - (start.len() - line_start)]].concat();
        assert_eq!(error_of(&line(64 * 1024), &limits), None);
        assert_eq!(error_of(&line(64 * 1024 + 1), &limits), Some(error));
    }
    // What is too long is accepted, or judged by its content, if its end has arrived with it.
    let long = [&vec![b'x'; 70_000][..], b"\r\n"].concat();
    assert_eq!(parse_all(&long).0, [[vec![b'x'; 70_000]]]);
    let long = [b"*", &vec![b'1'; 70_000][..], b"\r\n"].concat();
    assert_eq!(error_of(&long, &limits), Some(ProtocolError::InvalidMultibulkLen));
}

#[test]
fn limits_before_authentication() {
    let limits = ParseLimits { authenticated: false, ..ParseLimits::default() };
    for (input, expected) in [
        (&b"*10\r\n"[..], None),
        (b"*11\r\n", Some(ProtocolError::UnauthenticatedMultibulkLen)),
        (b"*99999999999\r\n", Some(ProtocolError::InvalidMultibulkLen)),
        (b"*1\r\n$16384\r\n", None),
        (b"*1\r\n$16385\r\n", Some(ProtocolError::UnauthenticatedBulkLen)),
        (b"*1\r\n$536870913\r\n", Some(ProtocolError::InvalidBulkLen)),
        (b"a b c d e f g h i j k l m n\r\n", None),
    ] {
        assert_eq!(error_of(input, &limits), expected, "{}", input.escape_ascii());
    }
}

#[test]
fn limits_that_the_caller_sets() {
    let limits = ParseLimits { bulk_len_max: 1 << 40, args_max: 3, ..ParseLimits::default() };
    assert_eq!(error_of(b"*3\r\n", &limits), None);
    assert_eq!(error_of(b"*4\r\n", &limits), Some(ProtocolError::InvalidMultibulkLen));
    assert_eq!(error_of(b"*1\r\n$4294967000\r\n", &limits), None);
    assert_eq!(error_of(b"*1\r\n$4294967290\r\n", &limits), Some(ProtocolError::CommandTooBig));
    assert_eq!(error_of(b"*1\r\n$1099511627776\r\n", &limits), Some(ProtocolError::CommandTooBig));
    assert_eq!(error_of(b"*1\r\n$1099511627777\r\n", &limits), Some(ProtocolError::InvalidBulkLen));
}

#[test]
fn a_promise_of_much_costs_nothing() {
    let (mut partial, mut spans) = (Partial::default(), Vec::new());
    let limits = ParseLimits::default();
    assert_eq!(parse(b"*1000000\r\n$500000000\r\n", &mut partial, &mut spans, &limits), Ok(None));
    assert_eq!((partial.bytes_allocated(), spans.capacity()), (0, 0));
    assert_eq!(partial.bytes_wanted(), 500_000_002);
    let input = b"*1000000\r\n$5\r\nhello\r\n$4\r\nab";
    let mut partial = Partial::default();
    assert_eq!(parse(input, &mut partial, &mut spans, &limits), Ok(None));
    assert_eq!((partial.words(), partial.bytes_wanted()), (1, 4));
}

/// Quadratic work would take minutes here.
#[test]
fn what_was_read_is_not_read_again() {
    let command: Words = (0..100_000).map(|number| format!("{number}").into_bytes()).collect();
    let input = encode(&command);
    let ends: Vec<usize> = (0..input.len()).collect();
    assert_eq!(parse_in_pieces(&input, &ends, &ParseLimits::default()).0, [command]);
    let inline = [&vec![b'x'; 60_000][..], b"\r\n"].concat();
    let ends: Vec<usize> = (0..inline.len()).collect();
    assert_eq!(parse_in_pieces(&inline, &ends, &ParseLimits::default()).0, [[vec![b'x'; 60_000]]]);
}

/// A plain parser of complete input: no state, no speed.
fn model(input: &[u8]) -> Outcome {
    let mut commands = Vec::new();
    let mut at = 0;
    loop {
        let result = if input.get(at) == Some(&b'*') {
            model_multibulk(&input[at..])
        } else {
            model_inline(&input[at..])
        };
        match result {
            Ok(Some((words, taken))) => {
                commands.push(words);
                at += taken;
            }
            Ok(None) => return (commands, at, None),
            Err(error) => return (commands, at, Some(error)),
        }
    }
}

type Modelled = Result<Option<(Words, usize)>, ProtocolError>;

fn model_inline(input: &[u8]) -> Modelled {
    let text = input.split(|&byte| byte == 0).next().unwrap();
    let Some(len) = text.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
    let words = stdx::quote::split_args(input[..len].strip_suffix(b"\r").unwrap_or(&input[..len]));
    Ok(Some((words.map_err(|_| ProtocolError::UnbalancedQuotes)?, len + 1)))
}

fn model_multibulk(input: &[u8]) -> Modelled {
    // The text of the line at `at` without its first byte, and whether it ends properly.
    let line = |at: usize| {
        let len = input.get(at..)?.iter().position(|&byte| byte == b'\r')?;
        let feed = *input.get(at + len + 1)?;
        Some((
            std::str::from_utf8(&input[at + 1..(at + len).max(at + 1)]).unwrap_or("?"),
            feed == b'\n',
            at + len + 2,
        ))
    };
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    let Some((text, proper, mut at)) = line(0) else { return Ok(None) };
    if !proper {
        return Err(ProtocolError::InvalidCrlf);
    }
    let count = number(text).filter(|&count| count <= i64::from(i32::MAX));
    let count = count.ok_or(ProtocolError::InvalidMultibulkLen)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let Some((text, proper, behind)) = line(at) else { return Ok(None) };
        if input[at] != b'$' {
            return Err(ProtocolError::ExpectedDollar(input[at]));
        }
        if !proper {
            return Err(ProtocolError::InvalidCrlf);
        }
        let len = number(text).filter(|len| (0..=512 << 20).contains(len));
        let len = len.ok_or(ProtocolError::InvalidBulkLen)? as usize;
        let Some(word) = input.get(behind..behind + len + 2) else { return Ok(None) };
        if &word[len..] != b"\r\n" {
            return Err(ProtocolError::InvalidCrlf);
        }
        words.push(word[..len].to_vec());
        at = behind + len + 2;
    }
    Ok(Some((words, at)))
}

/// A few commands, some of them damaged.
fn random_input(rng: &mut Rng) -> Vec<u8> {
    const BYTES: &[u8] = b"*$0123456789-+ \r\n\"'\\x\0\xffa";
    let mut input = Vec::new();
    for _ in 0..1 + rng.below(4) {
        let text = |rng: &mut Rng, len: u64| -> Vec<u8> {
            (0..rng.below(len)).map(|_| *rng.pick(BYTES).unwrap()).collect()
        };
        let mut part = match rng.below(8) {
            0 => [text(rng, 20), b"\r\n".to_vec()].concat(),
            1 => rng.pick(&[&b"\r\n"[..], b"\n", b"*0\r\n", b"*-1\r\n"]).unwrap().to_vec(),
            2 => text(rng, 12),
            _ => encode(&(0..rng.below(5)).map(|_| text(rng, 12)).collect()),
        };
        if rng.one_in(4) && !part.is_empty() {
            let at = rng.range(0..part.len());
            match rng.below(3) {
                0 => part[at] = *rng.pick(BYTES).unwrap(),
                1 => part.truncate(at),
                _ => part.insert(at, *rng.pick(BYTES).unwrap()),
            }
        }
        input.extend(part);
    }
    input
}

#[test]
fn agrees_with_the_plain_parser_however_the_bytes_arrive() {
    let seed = 0x9e59;
    let mut rng = Rng::new(seed);
    let limits = ParseLimits::default();
    let (mut commands, mut errors) = (0, 0);
    for round in 0..20_000 {
        let input = random_input(&mut rng);
        let context = || format!("seed {seed}, round {round}: {}", input.escape_ascii());
        let expected = model(&input);
        assert_eq!(parse_in_pieces(&input, &[], &limits), expected, "{}", context());
        let every_byte: Vec<usize> = (0..input.len()).collect();
        assert_eq!(parse_in_pieces(&input, &every_byte, &limits), expected, "{}", context());
        let mut some: Vec<usize> = (0..rng.below(6)).map(|_| rng.range(0..input.len() + 1)).collect();
        some.sort_unstable();
        assert_eq!(parse_in_pieces(&input, &some, &limits), expected, "{} {some:?}", context());
        commands += expected.0.iter().filter(|words| !words.is_empty()).count();
        errors += usize::from(expected.2.is_some());
    }
    assert!(commands > 10_000 && errors > 2_000, "{commands} commands, {errors} errors");
}

#[test]
fn every_split_of_a_pipeline_into_three() {
    let input = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$11\r\nhello world\r\nget 'k\\'y'\r\n*1\r\n$4\r\nPING\r\n";
    let whole = parse_all(input);
    assert_eq!(whole.0.len(), 3);
    for first in 0..input.len() {
        for second in first..input.len() {
            assert_eq!(parse_in_pieces(input, &[first, second], &ParseLimits::default()), whole);
        }
    }
}
