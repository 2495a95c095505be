//! Sizes for people, as INFO's `*_human` fields show them.

/// `n` bytes in the largest unit that leaves at least 1: `1023B`, `1.00K`, `2.50G`. Units are powers of 1024.
pub fn bytes(n: u64) -> String {
    if n < 1024 || n >> 60 != 0 {
        return format!("{n}B");
    }
    let power = n.ilog2() / 10;
    let unit = char::from(b"BKMGTP"[power as usize]);
    format!("{:.2}{unit}", n as f64 / (1_u64 << (10 * power)) as f64)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn units() {
        for (n, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_048_575, "1024.00K"),
            (1 << 20, "1.00M"),
            (5 << 29, "2.50G"),
            (3 << 40, "3.00T"),
            (1 << 50, "1.00P"),
            ((1 << 60) - 1, "1024.00P"),
            (1 << 60, "1152921504606846976B"),
            (u64::MAX, "18446744073709551615B"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }
}
