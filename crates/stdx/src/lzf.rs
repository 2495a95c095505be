//! Reading LZF, the compression of strings in snapshots and payloads.
//!
//! ```text
//!   000lllll                     l + 1 bytes follow as they are
//!   lllooooo oooooooo            l + 2 bytes (l not 0, not 7) from o + 1 bytes back
//!   111ooooo llllllll oooooooo   l + 9 bytes from there
//! ```

/// The bytes that `packed` stands for, which must be `len`; None if they are not. Grows with what is really there.
pub fn decompress(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = packed.iter().copied();
    while let Some(control) = rest.next() {
        if control < 32 {
            for _ in 0..=control {
                out.push(rest.next()?);
            }
        } else {
            let count = match control >> 5 {
                7 => usize::from(rest.next()?) + 9,
                short => usize::from(short) + 2,
            };
            let back = (usize::from(control & 31) << 8 | usize::from(rest.next()?)) + 1;
            let from = out.len().checked_sub(back)?;
            for at in from..from + count {
                out.push(out[at]);
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn literals_and_references() {
        assert_eq!(decompress(b"\x02abc", 3).as_deref(), Some(&b"abc"[..]));
        // "a", then 8 bytes from one byte back.
        assert_eq!(decompress(b"\x00a\xc0\x00", 9).as_deref(), Some(&b"aaaaaaaaa"[..]));
        assert_eq!(decompress(b"\x01ab\xe0\x02\x01", 13).as_deref(), Some(&b"ababababababa"[..]));
    }

    #[test]
    fn whatever_is_wrong_is_none() {
        for (packed, len) in [
            (&b"\x05ab"[..], 6),
            (b"\x00a\x20", 4),
            (b"\x00a\x20\x05", 4),
            (b"\xe0\x01", 10),
            (b"\x02abc", 2),
            (b"\x02abc", 4),
            (b"\x20\x00", 3),
        ] {
            assert_eq!(decompress(packed, len), None, "{packed:?}");
        }
    }
}
