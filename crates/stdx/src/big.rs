//! Natural numbers of any size, with just the arithmetic that exact decimal conversion needs.

use std::cmp::Ordering;

/// Limbs of 64 bits, lowest first, without zero limbs at the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Big(Vec<u64>);

/// 10^19: the largest power of ten in a limb.
const TEN_19: u64 = 10_u64.pow(19);

impl Big {
    pub(crate) fn new(value: u64) -> Big {
        let mut big = Big(vec![value]);
        big.trim();
        big
    }

    /// The number that `digits` (ASCII) write.
    pub(crate) fn from_digits<'a>(digits: impl Iterator<Item = &'a u8>) -> Big {
        let mut big = Big(Vec::new());
        let (mut chunk, mut scale) = (0, 1);
        for &digit in digits {
            chunk = chunk * 10 + u64::from(digit - b'0');
            scale *= 10;
            if scale == TEN_19 {
                big.mul_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
        }
        big.mul_add(scale, chunk);
        big
    }

    /// self * factor + addend
    fn mul_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.0 {
            let sum = u128::from(*limb) * u128::from(factor) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
        if carry != 0 {
            self.0.push(carry as u64);
        }
        self.trim();
    }

    /// self * 10^exponent
    pub(crate) fn mul_pow10(&mut self, mut exponent: usize) {
        while exponent > 0 {
            let step = exponent.min(19);
            self.mul_add(10_u64.pow(step as u32), 0);
            exponent -= step;
        }
    }

    /// self * 2^bits
    pub(crate) fn shl(&mut self, bits: usize) {
        if !bits.is_multiple_of(64) {
            self.mul_add(1 << (bits % 64), 0);
        }
        if !self.0.is_empty() {
            self.0.splice(0..0, std::iter::repeat_n(0, bits / 64));
        }
    }

    /// Number of bits; 0 for zero.
    pub(crate) fn bits(&self) -> usize {
        match self.0.last() {
            None => 0,
            Some(top) => self.0.len() * 64 - top.leading_zeros() as usize,
        }
    }

    /// The `count` (at most 128) bits from bit `from` upwards, and whether anything below them is set.
    pub(crate) fn bits_from(&self, from: usize, count: usize) -> (u128, bool) {
        let mut result = 0_u128;
        for index in (0..count).rev() {
            let bit = from + index;
            let limb = self.0.get(bit / 64).copied().unwrap_or(0);
            result = result << 1 | u128::from(limb >> (bit % 64) & 1);
        }
        let below = self.0.iter().take(from / 64).any(|&limb| limb != 0)
            || !from.is_multiple_of(64)
                && self.0.get(from / 64).is_some_and(|limb| limb << (64 - from % 64) != 0);
        (result, below)
    }

    fn cmp(&self, other: &Big) -> Ordering {
        let by_len = self.0.len().cmp(&other.0.len());
        by_len.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// self - other, which must not be larger.
    fn sub(&mut self, other: &Big) {
        let mut borrow = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let (difference, first) = limb.overflowing_sub(other.0.get(index).copied().unwrap_or(0));
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = first || second;
        }
        assert!(!borrow, "the difference is a natural number");
        self.trim();
    }

    /// The quotient and whether there is a remainder. The quotient must be below 2^bits.
    pub(crate) fn div(mut self, divisor: &Big, bits: usize) -> (u128, bool) {
        let mut shifted = divisor.clone();
        shifted.shl(bits);
        let mut quotient = 0;
        // The numerator is doubled rather than the divisor halved: both only need multiplication.
        for _ in 0..bits {
            self.shl(1);
            quotient <<= 1;
            if self.cmp(&shifted) != Ordering::Less {
                self.sub(&shifted);
                quotient |= 1;
            }
        }
        (quotient, !self.0.is_empty())
    }

    /// Appends the decimal digits.
    pub(crate) fn write_decimal(mut self, out: &mut Vec<u8>) {
        let mut chunks = Vec::new();
        while !self.0.is_empty() {
            let mut remainder = 0_u64;
            for limb in self.0.iter_mut().rev() {
                let dividend = u128::from(remainder) << 64 | u128::from(*limb);
                *limb = (dividend / u128::from(TEN_19)) as u64;
                remainder = (dividend % u128::from(TEN_19)) as u64;
            }
            self.trim();
            chunks.push(remainder);
        }
        let top = chunks.pop().unwrap_or(0);
        out.extend_from_slice(top.to_string().as_bytes());
        for chunk in chunks.iter().rev() {
            out.extend_from_slice(format!("{chunk:019}").as_bytes());
        }
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn decimal_round_trip_and_division() {
        let mut rng = Rng::new(0xb19);
        for _ in 0..300 {
            let digits: Vec<u8> = std::iter::once(b'1' + rng.below(9) as u8)
                .chain((0..rng.below(300)).map(|_| b'0' + rng.below(10) as u8))
                .collect();
            let big = Big::from_digits(digits.iter());
            let mut out = Vec::new();
            big.clone().write_decimal(&mut out);
            assert_eq!(out, digits);
            // (q * d + r) / d == q for r < d
            let (quotient, remainder) = (u128::from(rng.next_u64()), rng.below(2));
            let mut product = big.clone();
            product.mul_add(quotient as u64, remainder);
            if big != Big::new(1) {
                assert_eq!(product.div(&big, 66), (quotient, remainder != 0));
            }
        }
    }

    #[test]
    fn bits_and_shifts() {
        let mut big = Big::new(0b1011);
        assert_eq!(big.bits(), 4);
        big.shl(130);
        assert_eq!(big.bits(), 134);
        assert_eq!(big.bits_from(130, 4), (0b1011, false));
        assert_eq!(big.bits_from(131, 66), (0b101, true));
        assert_eq!(Big::new(0).bits(), 0);
        let mut thousand = Big::new(1);
        thousand.mul_pow10(40);
        let mut out = Vec::new();
        thousand.write_decimal(&mut out);
        assert_eq!(out, format!("1{}", "0".repeat(40)).as_bytes());
    }
}
