use super::*;
use crate::Args;

/// All commands of `input`, the rest of it, and the error that ends it.
fn parse_all(input: &[u8], limits: &ParseLimits) -> (Vec<Vec<Vec<u8>>>, usize, Option<ProtocolError>) {
    let mut partial = Partial::default();
    let mut commands = Vec::new();
    let mut at = 0;
    loop {
        let mut spans = Vec::new();
        match parse(&input[at..], &mut partial, &mut spans, limits) {
            Ok(Some(taken)) => {
                let unquoted = partial.take_unquoted();
                let args = Args::new(unquoted.as_deref().unwrap_or(&input[at..at + taken]), &spans);
                commands.push(args.iter().map(<[u8]>::to_vec).collect());
                at += taken;
            }
            Ok(None) => return (commands, at, None),
            Err(error) => return (commands, at, Some(error)),
        }
    }
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn pipelined_commands() {
    let input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*1\r\n$0\r\n\r\n\r\n*0\r\n*-1\r\nset a \"b c\"\n*1\r\n$4\r\nPI";
    let (commands, rest, error) = parse_all(input, &ParseLimits::default());
    let expected = [
        words(&["GET", "k"]),
        words(&["PING"]),
        words(&[""]),
        words(&[]),
        words(&[]),
        words(&[]),
        words(&["set", "a", "b c"]),
    ];
    assert_eq!(commands, expected);
    assert_eq!((rest, error), (input.len() - 10, None));
}
