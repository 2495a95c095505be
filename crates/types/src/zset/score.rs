//! HOT: scores: their order as an integer, how an element keeps one, ranges of them and of members. Not their text.

use std::cmp::Ordering;

use crate::table::{Element, Value};

/// The place of a score among all scores: the integers are ordered as the scores are, and equal where those are equal (0 and -0).
#[inline(always)]
pub(super) fn order(score: f64) -> u64 {
    // Adding 0 makes -0 0 and nothing else different.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The score as an integer, where that says all of it: not for -0, nor for what takes as many bytes as the double.
#[inline(always)]
pub(super) fn as_integer(score: f64) -> Option<i64> {
    const INTEGER_MAX: f64 = (1_u64 << 53) as f64;
    let whole = score.abs() < INTEGER_MAX && score == score.trunc();
    (whole && !(score == 0.0 && score.is_sign_negative())).then_some(score as i64)
}

/// A score as the value of a table's element: an integer, or a double of 4 or 8 bytes, whichever is exact.
pub(super) enum Kept {
    Integer(i64),
    Short([u8; 4]),
    Long([u8; 8]),
}

impl Kept {
    #[inline]
    pub(super) fn new(score: f64) -> Kept {
        if let Some(integer) = as_integer(score) {
            return Kept::Integer(integer);
        }
        let short = score as f32;
        if f64::from(short) == score {
            Kept::Short(short.to_le_bytes())
        } else {
            Kept::Long(score.to_le_bytes())
        }
    }

    #[inline]
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Kept::Integer(integer) => Value::Int(*integer),
            Kept::Short(bytes) => Value::Bytes(bytes),
            Kept::Long(bytes) => Value::Bytes(bytes),
        }
    }
}

/// The score of an element.
#[inline(always)]
pub(super) fn score_of(element: Element<'_>) -> f64 {
    match element.value() {
        Value::Int(integer) => integer as f64,
        Value::Bytes(bytes) => match bytes.try_into() {
            Ok(long) => f64::from_le_bytes(long),
            Err(_) => f32::from_le_bytes(bytes.try_into().expect("a score has 4 or 8 bytes")).into(),
        },
    }
}

/// A range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// Neither bound is a NaN.
    pub min: f64,
    pub max: f64,
    /// Whether a score equal to `min` lies outside.
    pub min_excluded: bool,
    /// The same for `max`.
    pub max_excluded: bool,
}

impl ScoreRange {
    /// Whether `score` lies in the range.
    pub fn contains(&self, score: f64) -> bool {
        (self.start()..self.end()).contains(&order(score))
    }

    /// The orders in the range: from the first...
    #[inline]
    pub(super) fn start(&self) -> u64 {
        order(self.min) + u64::from(self.min_excluded)
    }

    /// ... up to this one, which lies outside.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        order(self.max) + u64::from(!self.max_excluded)
    }
}

/// A bound of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member.
    Least,
    /// Behind every member.
    Greatest,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

/// A range of members, in the order of their bytes. What it holds is told only for sets whose scores are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    pub min: LexBound<'a>,
    pub max: LexBound<'a>,
}

impl LexRange<'_> {
    /// Whether `member` does not lie before the range.
    #[inline]
    pub fn reaches(&self, member: &[u8]) -> bool {
        match self.min {
            LexBound::Least => true,
            LexBound::Greatest => false,
            LexBound::Included(min) => member >= min,
            LexBound::Excluded(min) => member > min,
        }
    }

    /// Whether `member` does not lie behind the range.
    #[inline]
    pub fn stays(&self, member: &[u8]) -> bool {
        match self.max {
            LexBound::Least => false,
            LexBound::Greatest => true,
            LexBound::Included(max) => member <= max,
            LexBound::Excluded(max) => member < max,
        }
    }
}

/// The order of a sorted set: by score, then by the bytes of the member.
pub fn compare(a: (f64, &[u8]), b: (f64, &[u8])) -> Ordering {
    order(a.0).cmp(&order(b.0)).then_with(|| a.1.cmp(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_doubles() {
        let scores =
            [f64::NEG_INFINITY, -1e300, -2.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.5, 1e17, f64::INFINITY];
        for a in scores {
            for b in scores {
                assert_eq!(order(a).cmp(&order(b)), a.partial_cmp(&b).unwrap(), "{a} {b}");
            }
        }
    }

    #[test]
    fn only_what_an_integer_tells_exactly_is_one() {
        for (score, integer) in [(0.0, Some(0)), (-7.0, Some(-7)), (1e15, Some(1_000_000_000_000_000))] {
            assert_eq!(as_integer(score), integer);
        }
        for score in [-0.0, 0.5, 1e17, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(as_integer(score), None);
        }
    }

    #[test]
    fn ranges_hold_what_their_bounds_say() {
        let range =
            |min, max, min_excluded, max_excluded| ScoreRange { min, max, min_excluded, max_excluded };
        assert!(range(-0.0, 0.0, false, false).contains(0.0));
        assert!(!range(0.0, 1.0, true, false).contains(-0.0));
        assert!(range(0.0, 1.0, true, false).contains(1.0));
        assert!(!range(0.0, 1.0, false, true).contains(1.0));
        assert!(range(f64::NEG_INFINITY, f64::INFINITY, false, false).contains(f64::INFINITY));
        assert!(!range(f64::NEG_INFINITY, f64::INFINITY, true, true).contains(f64::INFINITY));
    }
}
