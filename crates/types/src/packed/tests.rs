//! Tests of packed sequences: every kind of element, and random changes against a vector of strings.

use stdx::rng::Rng;

use super::*;

fn texts(packed: Packed<'_>) -> Vec<Vec<u8>> {
    packed.iter().map(Piece::to_vec).collect()
}

fn backwards(packed: Packed<'_>) -> Vec<Vec<u8>> {
    let mut texts: Vec<_> = packed.iter().rev().map(Piece::to_vec).collect();
    texts.reverse();
    texts
}

fn elements(strings: &[Vec<u8>]) -> impl DoubleEndedIterator<Item = Element<'_>> + Clone {
    strings.iter().map(|string| Element::new(string))
}

/// A string of a random kind: integers of every size, texts that almost are one, lengths around the bounds.
pub(crate) fn random_string(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0..3 => ((rng.next_u64() as i64) >> rng.below(64)).to_string().into_bytes(),
        3 => rng.below(120).to_string().into_bytes(),
        4 => [&b"007"[..], b"-0", b"+1", b"9223372036854775808", b"1 ", b"", b"-"][rng.below(7) as usize]
            .to_vec(),
        5 => {
            let len = [126, 127, 128, 129, 383, 384, 385, 65535, 65536][rng.below(9) as usize];
            vec![rng.next_u64() as u8; len]
        }
        _ => {
            let mut string = vec![0; rng.below(40) as usize];
            rng.fill(&mut string);
            string
        }
    }
}

#[test]
fn what_short_elements_take() {
    for (string, bytes) in [("", 1), ("a", 2), ("0", 1), ("111", 1), ("112", 2), ("-1", 2), ("1000", 3)] {
        assert_eq!(Element::new(string.as_bytes()).size(), bytes, "{string}");
    }
    assert_eq!(Element::new(b"9223372036854775807").size(), 9);
    assert_eq!(Element::new(&[b'x'; 127]).size(), 128);
    assert_eq!(Element::new(&[b'x'; 128]).size(), 131);
    assert_eq!(Element::new(&[b'x'; 384]).size(), 389);
    assert_eq!(Element::new(&[b'x'; 65536]).size(), 65545);
}

#[test]
fn an_integer_says_how_long_its_text_is() {
    for integer in [0, 9, 10, -1, -10, i64::MAX, i64::MIN] {
        assert_eq!(Piece::Int(integer).len(), integer.to_string().len());
    }
}

#[test]
fn the_empty_sequence_has_nothing_on_either_side() {
    let packed = Packed::new(EMPTY);
    assert!(packed.is_empty() && packed.iter().next().is_none() && packed.iter().next_back().is_none());
    assert_eq!((packed.next(Cursor::START), packed.previous(packed.end())), (None, None));
    assert_eq!((packed.nth(0), packed.nth(1), packed.nth_back(0)), (Some(Cursor::START), None, None));
    assert_eq!(packed.get(Cursor::START), None);
}

#[test]
fn pairs_are_found_by_their_fields() {
    let mut bytes = Vec::new();
    write(&mut bytes, ["f", "g", "g", "1", "7", "h"].iter().map(|text| Element::new(text.as_bytes())));
    let packed = Packed::new(&bytes);
    let found = |text: &str| packed.find(&Element::new(text.as_bytes()), 2).map(|(_, place)| place);
    assert_eq!(
        (found("f"), found("g"), found("7"), found("h"), found("1")),
        (Some(0), Some(1), Some(2), None, None)
    );
    let (cursor, _) = packed.find(&Element::new(b"g"), 2).unwrap();
    let value = packed.next(cursor).unwrap();
    assert_eq!(packed.get(value), Some(Piece::Int(1)));
    assert!(packed.is_at(value, &Element::new(b"1")) && !packed.is_at(value, &Element::new(b"2")));
}

#[test]
fn random_changes_give_what_a_vector_gives() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed_0011);
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    for _ in 0..60 {
        let start = rng.below(4) as usize;
        let mut region = vec![0xEE; start];
        region.extend_from_slice(EMPTY);
        let mut model: Vec<Vec<u8>> = Vec::new();
        for _ in 0..100 {
            let at = rng.below(model.len() as u64 + 1) as usize;
            let packed = Packed::new(&region[start..]);
            let cursor = if at < model.len() && rng.one_in(2) {
                packed.nth_back(model.len() - 1 - at)
            } else {
                packed.nth(at)
            };
            let cursor = cursor.expect("the place is there");
            let count = if rng.one_in(3) { 0 } else { rng.below(3).min((model.len() - at) as u64) as usize };
            let added: Vec<_> = (0..rng.below(4)).map(|_| random_string(&mut rng)).collect();
            replace(&mut region, start, cursor, count, elements(&added));
            model.splice(at..at + count, added);
            check(&mut rng, &region[start..], &model);
        }
        assert!(region[..start].iter().all(|byte| *byte == 0xEE));
    }
}

fn check(rng: &mut Rng, bytes: &[u8], model: &[Vec<u8>]) {
    let packed = Packed::new(bytes);
    assert_eq!((texts(packed), backwards(packed)), (model.to_vec(), model.to_vec()));
    let mut again = Vec::new();
    write(&mut again, elements(model));
    assert_eq!(again, bytes);
    let wanted = rng.pick(model).cloned().unwrap_or_default();
    let element = Element::new(&wanted);
    let found = packed.find(&element, 1);
    assert_eq!(found.map(|(_, place)| place), model.iter().position(|string| *string == wanted));
    if let Some((cursor, place)) = found {
        assert_eq!(packed.nth(place), Some(cursor));
        assert!(packed.is_at(cursor, &element));
    }
    assert_eq!(packed.find(&Element::new(b"nobody has this"), 1), None);
}

#[test]
fn a_buffer_with_room_grows_and_shrinks_at_both_ends() {
    let mut rng = Rng::new(0x5eed_0012);
    let mut buffer = vec![0xEE; 1 << 21];
    let mut range = 1 << 20..(1 << 20) + 1;
    buffer[range.start] = 0;
    let mut model = std::collections::VecDeque::new();
    for _ in 0..2_000 {
        let string = random_string(&mut rng);
        let packed = Packed::new(&buffer[range.clone()]);
        range = match rng.below(5) {
            0 if !model.is_empty() => {
                model.pop_front();
                let cursor = packed.nth(1).unwrap();
                cut_front(&mut buffer, range, cursor)
            }
            1 if !model.is_empty() => {
                model.pop_back();
                let cursor = packed.nth_back(0).unwrap();
                cut_back(&mut buffer, range, cursor)
            }
            0..3 => {
                model.push_front(string.clone());
                grow_front(&mut buffer, range, &Element::new(&string))
            }
            _ => {
                model.push_back(string.clone());
                grow_back(&mut buffer, range, &Element::new(&string))
            }
        };
        if range.len() > 300_000 {
            range = range.end - 1..range.end;
            buffer[range.start] = 0;
            model.clear();
        }
        assert!(texts(Packed::new(&buffer[range.clone()])).iter().eq(model.iter()));
        if range.start < 200_000 || range.end > 1_800_000 {
            let middle = (1 << 20) - range.len() / 2;
            buffer.copy_within(range.clone(), middle);
            range = middle..middle + range.len();
        }
    }
}
