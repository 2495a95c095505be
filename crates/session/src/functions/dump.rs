//! All libraries as one payload, and back: the format of FUNCTION DUMP, which Valkey and Redis read and write too.
//!
//! ```text
//!   (245  length  source)*   version: 2 bytes   CRC-64 of all before it: 8 bytes          (numbers little endian)
//! ```
//!
//! A length is one of the forms of snapshots: 6 bits, 14 bits, 32 or 64 bits, or 0xc3 for a text that is compressed by LZF.

use stdx::crc64::crc64;
use stdx::lzf::decompress;

use super::Libraries;

/// A library follows.
const LIBRARY: u8 = 245;
/// The version of the format that this writes, and the newest that it reads.
const VERSION: u16 = 80;
/// The longest source that is taken, as long as any value.
const SOURCE_MAX: u64 = 512 << 20;

/// The payload of these libraries.
pub(crate) fn dump(libraries: &Libraries) -> Vec<u8> {
    let mut out = Vec::new();
    for library in libraries.iter() {
        let source = &library.code.source;
        out.push(LIBRARY);
        match source.len() {
            len @ 0..0x40 => out.push(len as u8),
            len @ 0x40..0x4000 => out.extend([0x40 | (len >> 8) as u8, len as u8]),
            len => {
                out.push(0x80);
                out.extend((len as u32).to_be_bytes());
            }
        }
        out.extend_from_slice(source);
    }
    out.extend(VERSION.to_le_bytes());
    out.extend(crc64(&out).to_le_bytes());
    out
}

/// What is wrong with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The end is not as it must be.
    VersionOrChecksum,
    /// There is something that is not a library.
    NotAFunction,
    /// A library ends early or is not compressed properly.
    Broken,
}

impl Bad {
    /// The error's text.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Bad::VersionOrChecksum => "ERR DUMP payload version or checksum are wrong",
            Bad::NotAFunction => "ERR given type is not a function",
            Bad::Broken => "ERR failed loading functions, the payload ends inside a library",
        }
    }
}

/// The sources in a payload.
pub(crate) fn restore(payload: &[u8]) -> Result<Vec<Vec<u8>>, Bad> {
    let (checked, sum) = payload.split_last_chunk::<8>().ok_or(Bad::VersionOrChecksum)?;
    let (mut body, version) = checked.split_last_chunk::<2>().ok_or(Bad::VersionOrChecksum)?;
    if u16::from_le_bytes(*version) > VERSION || crc64(checked) != u64::from_le_bytes(*sum) {
        return Err(Bad::VersionOrChecksum);
    }
    let mut sources = Vec::new();
    while let Some((kind, rest)) = body.split_first() {
        if *kind != LIBRARY {
            return Err(Bad::NotAFunction);
        }
        body = rest;
        sources.push(text(&mut body).ok_or(Bad::Broken)?);
    }
    Ok(sources)
}

fn take<'b>(body: &mut &'b [u8], len: u64) -> Option<&'b [u8]> {
    let (head, rest) = body.split_at_checked(usize::try_from(len).ok()?)?;
    *body = rest;
    Some(head)
}

/// A length, not of the special forms.
fn length(body: &mut &[u8]) -> Option<u64> {
    let first = take(body, 1)?[0];
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    match first {
        0..0x40 => Some(first.into()),
        0x40..0x80 => Some(u64::from(first & 0x3f) << 8 | u64::from(take(body, 1)?[0])),
        0x80 => Some(number(take(body, 4)?)),
        0x81 => Some(number(take(body, 8)?)),
        _ => None,
    }
}

fn text(body: &mut &[u8]) -> Option<Vec<u8>> {
    if body.first() != Some(&0xc3) {
        let len = length(body)?;
        return take(body, len).map(<[u8]>::to_vec);
    }
    *body = &body[1..];
    let (packed_len, len) = (length(body)?, length(body)?);
    let packed = take(body, packed_len)?;
    if len > SOURCE_MAX {
        return None;
    }
    decompress(packed, len as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Valkey 9.1.2 gives for one library.
    const OF_VALKEY: &[u8] =
        b"\xf5:#!lua name=one\nredis.register_function(\"a\",function() end)P\0!i\x83\xfe\x18\x86\xb8D";

    #[test]
    fn a_payload_of_valkey_is_read() {
        let sources = restore(OF_VALKEY).expect("a good payload");
        assert_eq!(sources, [b"#!lua name=one\nredis.register_function(\"a\",function() end)"]);
    }

    #[test]
    fn every_cut_and_every_other_bit_is_an_error() {
        for len in 0..OF_VALKEY.len() {
            assert_eq!(restore(&OF_VALKEY[..len]), Err(Bad::VersionOrChecksum));
        }
        for bit in 0..OF_VALKEY.len() * 8 {
            let mut payload = OF_VALKEY.to_vec();
            payload[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(restore(&payload), Err(Bad::VersionOrChecksum));
        }
    }

    #[test]
    fn what_the_checksum_does_not_tell_is_checked_too() {
        for body in [
            &b"\0"[..],
            b"\xf5",
            b"\xf5\x05abc",
            b"\xf5\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xf5\xc3\x02\xff\xff\xff",
            b"\xf5\xc0\0",
        ] {
            let mut payload = body.to_vec();
            payload.extend(VERSION.to_le_bytes());
            payload.extend(crc64(&payload).to_le_bytes());
            assert!(restore(&payload).is_err(), "{body:?}");
        }
    }
}
