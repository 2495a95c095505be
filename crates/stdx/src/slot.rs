//! Which of the 16384 slots a key belongs to: CRC16/XMODEM of its hash tag, else of the whole key.
//!
//! HOT: called for every key of every command. No allocation, no branch per byte.
//!
//! The CRC (polynomial 0x1021, most significant bit first, start 0) is linear over GF(2), and with a start
//! value of 0 the CRC of a message is the XOR of what each byte contributes on its own. `TABLES[d][b]` is the
//! contribution of byte `b` with `d` bytes behind it, so up to 16 bytes are 16 independent lookups
//! ("slicing", Kounavis and Berry 2008). Source of the slot rule: the Redis cluster specification.

/// Number of hash slots: 2^14.
pub const SLOTS: u16 = 1 << 14;

/// Bytes taken per step; the tables need 16 * 256 * 2 = 8 KiB.
const SLICE: usize = 16;

static TABLES: [[u16; 256]; SLICE] = tables();

const fn tables() -> [[u16; 256]; SLICE] {
    let mut tables = [[0_u16; 256]; SLICE];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut distance = 1;
    while distance < SLICE {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[distance - 1][byte];
            tables[distance][byte] = (crc << 8) ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        distance += 1;
    }
    tables
}

/// The slot of `key`, below [`SLOTS`]. Only the part between the first `{` and the first `}` behind it counts,
/// if that part is not empty.
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (SLOTS - 1)
}

/// The part of `key` that decides its slot.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    match find_brace(key) {
        None => key,
        Some(open) => tag_behind(key, open),
    }
}

#[cold]
fn tag_behind(key: &[u8], open: usize) -> &[u8] {
    let behind = &key[open + 1..];
    match behind.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &behind[..close],
    }
}

/// Position of the first `{`, eight bytes at a time.
#[inline]
fn find_brace(key: &[u8]) -> Option<usize> {
    let (words, tail) = key.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        // A byte of `differing` is zero exactly where the word has a brace; the classic test for a zero byte
        // may also flag bytes above a true hit, never without one.
        let differing = u64::from_le_bytes(*word) ^ (0x0101_0101_0101_0101 * b'{' as u64);
        let hits = differing.wrapping_sub(0x0101_0101_0101_0101) & !differing & 0x8080_8080_8080_8080;
        if hits != 0 {
            return Some(index * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let start = words.len() * 8;
    tail.iter().position(|&byte| byte == b'{').map(|at| start + at)
}

/// CRC16/XMODEM of `bytes`.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (slices, tail) = bytes.as_chunks::<SLICE>();
    let mut crc = 0_u16;
    for slice in slices {
        crc = crc_of_slice(slice, crc);
    }
    if tail.is_empty() { crc } else { crc_of_tail(tail, crc) }
}

#[inline]
fn crc_of_slice(slice: &[u8; SLICE], start: u16) -> u16 {
    // The start value lies over the first two bytes.
    let [high, low] = start.to_be_bytes();
    let mut crc =
        TABLES[SLICE - 1][(slice[0] ^ high) as usize] ^ TABLES[SLICE - 2][(slice[1] ^ low) as usize];
    for index in 2..SLICE {
        crc ^= TABLES[SLICE - 1 - index][slice[index] as usize];
    }
    crc
}

/// For fewer than `SLICE` bytes.
#[inline]
fn crc_of_tail(tail: &[u8], start: u16) -> u16 {
    let [high, low] = start.to_be_bytes();
    match *tail {
        [] => start,
        // The second byte of the start value has nothing to lie over yet: it moves up.
        [only] => TABLES[0][(only ^ high) as usize] ^ u16::from(low) << 8,
        [first, second, ref rest @ ..] => {
            let distance = rest.len() % SLICE;
            let mut crc = TABLES[(distance + 1) % SLICE][(first ^ high) as usize]
                ^ TABLES[distance][(second ^ low) as usize];
            for (table, &byte) in TABLES.iter().zip(rest.iter().rev()) {
                crc ^= table[byte as usize];
            }
            crc
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn crc16_bitwise(bytes: &[u8]) -> u16 {
        let mut crc = 0_u16;
        for &byte in bytes {
            crc ^= u16::from(byte) << 8;
            for _ in 0..8 {
                crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            }
        }
        crc
    }

    #[test]
    fn known_slots() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"123456789"), 12739);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn hash_tags() {
        assert_eq!(hash_tag(b"{user1000}.following"), b"user1000");
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_tag(b"{}"), b"{}");
        assert_eq!(hash_tag(b"{"), b"{");
        assert_eq!(hash_tag(b"a}{b"), b"a}{b");
        assert_eq!(hash_tag(b"a}{b}"), b"b");
        assert_eq!(slot_of(b"any{foo}where"), 12182);
        assert_eq!(slot_of(b"0123456789abcdef{foo}"), 12182);
    }

    #[test]
    fn agrees_with_the_bitwise_definition() {
        let mut rng = Rng::new(0x51a7);
        for len in 0..200 {
            for _ in 0..20 {
                let mut key = vec![0; len];
                rng.fill(&mut key);
                assert_eq!(crc16(&key), crc16_bitwise(&key), "{key:x?}");
                let brace = key.iter().position(|&byte| byte == b'{');
                assert_eq!(find_brace(&key), brace, "{key:x?}");
            }
        }
    }
}
