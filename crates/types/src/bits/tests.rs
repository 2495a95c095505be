//! Bits against vectors of booleans.

use stdx::rng::Rng;

use super::*;

/// Few bytes to many, with long runs of equal ones now and then.
fn random_bytes(rng: &mut Rng) -> Vec<u8> {
    let longest = [3, 40, 700, 3000, 40_000][rng.range(0..5)];
    let mut bytes = vec![[0, 0xff][rng.range(0..2)]; rng.range(0..longest)];
    match rng.range(0..3) {
        0 => rng.fill(&mut bytes),
        1 if !bytes.is_empty() => {
            let at = rng.range(0..bytes.len());
            bytes[at] ^= 1 << rng.below(8);
        }
        _ => {}
    }
    bytes
}

fn bits_of(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 == 1)).collect()
}

fn bytes_of(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit))).collect()
}

fn random_range(rng: &mut Rng, len: usize) -> Range<usize> {
    let (a, b) = (rng.range(0..len + 1), rng.range(0..len + 1));
    a.min(b)..a.max(b)
}

#[test]
fn counting_and_finding_as_one_bit_after_the_other() {
    let seed = 11;
    let mut rng = Rng::new(seed);
    for round in 0..1_500 {
        let bytes = random_bytes(&mut rng);
        let bits = bits_of(&bytes);
        let expected = |range: Range<usize>| bits[range].iter().filter(|bit| **bit).count() as u64;
        assert_eq!(ones(&bytes), expected(0..bits.len()), "seed {seed}, round {round}");
        let range = random_range(&mut rng, bits.len());
        assert_eq!(ones_in(&bytes, range.clone()), expected(range.clone()), "seed {seed}, round {round}");
        for one in [false, true] {
            let first = range.clone().find(|at| bits[*at] == one);
            assert_eq!(find(&bytes, one, range.clone()), first, "seed {seed}, round {round}, {range:?}");
        }
    }
}

#[test]
fn fields_as_one_bit_after_the_other() {
    let seed = 12;
    let mut rng = Rng::new(seed);
    for round in 0..20_000 {
        let width = 1 + rng.below(64) as u32;
        let mut bytes = vec![0; rng.range(0..20)];
        rng.fill(&mut bytes);
        let mut bits = bits_of(&bytes);
        let at = rng.range(0..160);
        let bit = |bits: &[bool], at: usize| bits.get(at).copied().unwrap_or(false);
        let expected = (0..width as usize).fold(0_u64, |sum, n| sum << 1 | u64::from(bit(&bits, at + n)));
        assert_eq!(field(&bytes, at, width), expected, "seed {seed}, round {round}");
        assert_eq!(get(&bytes, at), bit(&bits, at), "seed {seed}, round {round}");
        if at + width as usize > bits.len() {
            continue;
        }
        let value = rng.next_u64();
        for n in 0..width as usize {
            bits[at + n] = value >> (width as usize - 1 - n) & 1 == 1;
        }
        set_field(&mut bytes, at, width, value);
        assert_eq!(bytes, bytes_of(&bits), "seed {seed}, round {round}");
        bits[at] = !bits[at];
        set(&mut bytes, at, bits[at]);
        assert_eq!(bytes, bytes_of(&bits), "seed {seed}, round {round}");
    }
}

#[test]
fn combining_as_one_byte_after_the_other() {
    let seed = 13;
    let mut rng = Rng::new(seed);
    for round in 0..400 {
        let mut sources: Vec<Vec<u8>> = (0..1 + rng.below(4)).map(|_| random_bytes(&mut rng)).collect();
        if round % 50 == 0 {
            // More than a block.
            sources[0] = vec![0; 2 * BLOCK_BYTES + rng.range(0..BLOCK_BYTES)];
            rng.fill(&mut sources[0]);
        }
        let longest = sources.iter().map(Vec::len).max().unwrap();
        let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let byte = |source: &[u8], at: usize| source.get(at).copied().unwrap_or(0);
        for (operation, apply) in [
            (Operation::And, (|a, b| a & b) as fn(u8, u8) -> u8),
            (Operation::Or, |a, b| a | b),
            (Operation::Xor, |a, b| a ^ b),
        ] {
            let expected: Vec<u8> =
                (0..longest).map(|at| slices.iter().map(|s| byte(s, at)).reduce(apply).unwrap()).collect();
            let mut result = vec![0xaa; longest];
            combine(operation, &mut result, &slices);
            assert_eq!(result, expected, "seed {seed}, round {round}, {operation:?}");
        }
        let mut result = vec![0xaa; sources[0].len()];
        combine(Operation::Not, &mut result, &slices[..1]);
        assert!(result.iter().zip(&sources[0]).all(|(a, b)| *a == !b), "seed {seed}, round {round}");
    }
}

#[test]
fn integers_that_do_not_fit() {
    let signed = |width| FieldType::new(true, width).unwrap();
    let unsigned = |width| FieldType::new(false, width).unwrap();
    for (kind, value, wrapped, saturated) in [
        (unsigned(8), 300, 44, 255),
        (unsigned(8), -1, 255, 255),
        (unsigned(63), i64::MIN, 0, i64::MAX),
        (unsigned(1), 2, 0, 1),
        (signed(8), 128, -128, 127),
        (signed(8), -129, 127, -128),
        (signed(1), 1, -1, 0),
    ] {
        assert_eq!(kind.fit(value, Overflow::Wrap), Some(wrapped), "{kind:?} {value}");
        assert_eq!(kind.fit(value, Overflow::Saturate), Some(saturated), "{kind:?} {value}");
        assert_eq!(kind.fit(value, Overflow::Fail), None, "{kind:?} {value}");
    }
    assert_eq!(signed(7).fit(i64::MIN + 64, Overflow::Saturate), Some(-64));
    assert_eq!(signed(7).fit(i64::MIN + 63, Overflow::Saturate), Some(63));
    assert_eq!(unsigned(8).sum(10, -11, Overflow::Wrap), Some(255));
    assert_eq!(unsigned(8).sum(10, -11, Overflow::Saturate), Some(0));
    assert_eq!(signed(64).sum(i64::MAX, 1, Overflow::Wrap), Some(i64::MIN));
    assert_eq!(signed(64).sum(i64::MIN, -1, Overflow::Saturate), Some(i64::MIN));
    assert_eq!(signed(64).fit(i64::MIN, Overflow::Fail), Some(i64::MIN));
    assert_eq!(FieldType::new(false, 64), None);
    assert_eq!(FieldType::new(true, 65), None);
    assert_eq!(FieldType::new(true, 0), None);
}
