//! Values: how long, and of what bytes. All are slices of one block that is made before the run, so a value costs a copy.
//!
//! HOT: called for every value. No allocation, no lock.

use std::sync::Arc;

use stdx::rng::Rng;

use crate::fault::{Fault, Result};

/// How long values are, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// All alike.
    Fixed(usize),
    /// Uniform between the two, both included.
    Range(usize, usize),
    /// Sizes with weights; not empty, the weights above 0.
    Weighted(Vec<(usize, u64)>),
}

impl Sizes {
    /// The largest size.
    #[must_use]
    pub fn maximum(&self) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(_, high) => *high,
            Sizes::Weighted(list) => list.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }

    #[inline]
    fn draw(&self, rng: &mut Rng) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(low, high) => rng.range(*low..high + 1),
            Sizes::Weighted(list) => {
                let total = list.iter().map(|(_, weight)| weight).sum();
                let mut at = rng.below(total);
                for (size, weight) in list {
                    if at < *weight {
                        return *size;
                    }
                    at -= weight;
                }
                0
            }
        }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(formatter, "{size}"),
            Sizes::Range(low, high) => write!(formatter, "{low}-{high}"),
            Sizes::Weighted(list) => {
                for (index, (size, weight)) in list.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(formatter, "{comma}{size}:{weight}")?;
                }
                Ok(())
            }
        }
    }
}

/// The largest value that servers take: 512 MiB.
const SIZE_MAX: usize = 512 << 20;

impl std::str::FromStr for Sizes {
    type Err = Fault;

    /// `64`, `16-1024`, or `64:9,4096:1`.
    fn from_str(text: &str) -> Result<Sizes> {
        let bad = || {
            Fault::new(format!(
                "a data size is 64, 16-1024 or 64:9,4096:1 (size:weight), of 512 MiB at most, and not {text}"
            ))
        };
        let number = |text: &str| text.parse::<usize>().ok().filter(|size| *size <= SIZE_MAX).ok_or_else(bad);
        if text.contains(':') {
            let pair = |item: &str| {
                let (size, weight) = item.split_once(':').ok_or_else(bad)?;
                let weight = weight.parse::<u64>().ok().filter(|weight| (1..=1 << 32).contains(weight));
                Ok((number(size)?, weight.ok_or_else(bad)?))
            };
            return Ok(Sizes::Weighted(text.split(',').map(pair).collect::<Result<_>>()?));
        }
        match text.split_once('-') {
            None => Ok(Sizes::Fixed(number(text)?)),
            Some((low, high)) => {
                let (low, high) = (number(low)?, number(high)?);
                if low > high { Err(bad()) } else { Ok(Sizes::Range(low, high)) }
            }
        }
    }
}

/// What values are made of.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Random bytes, which nothing can compress.
    Random,
    /// 16 random bytes, then 48 times the same one, and so on: about a third of the size is information.
    Compressible,
    /// The letter x.
    Constant,
}

/// How far apart random values may begin in the block: 64 KiB, which stays in the processor's second cache.
const SPREAD: usize = 64 << 10;

/// Makes values.
#[derive(Clone, Debug)]
pub struct Data {
    sizes: Sizes,
    kind: Kind,
    block: Arc<[u8]>,
    seed: u64,
}

impl Data {
    /// Makes the block from `seed`; takes about a millisecond per MiB of the largest size.
    #[must_use]
    pub fn new(sizes: Sizes, kind: Kind, seed: u64) -> Data {
        let spread = if kind == Kind::Constant { 0 } else { SPREAD };
        let mut block = vec![b'x'; sizes.maximum() + spread];
        let mut rng = Rng::new(seed ^ 0xb10c);
        match kind {
            Kind::Constant => {}
            Kind::Random => rng.fill(&mut block),
            Kind::Compressible => block.chunks_mut(64).for_each(|chunk| {
                let random = chunk.len().min(16);
                rng.fill(&mut chunk[..random]);
            }),
        }
        Data { sizes, kind, block: block.into(), seed }
    }

    /// The size of every value, if they have one size.
    #[must_use]
    pub fn fixed_size(&self) -> Option<usize> {
        if let Sizes::Fixed(size) = self.sizes { Some(size) } else { None }
    }

    /// The next value.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> &[u8] {
        let size = self.sizes.draw(rng);
        let start = if self.kind == Kind::Constant { 0 } else { rng.next_u32() as usize % SPREAD };
        &self.block[start..start + size]
    }

    /// The value that belongs to the key of this number, wherever and whenever it is asked for: what `--verify` sets and expects.
    #[must_use]
    pub fn of_key(&self, key: u64) -> &[u8] {
        self.draw(&mut Rng::new(self.seed ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for text in ["64", "16-1024", "64:9,4096:1", "0"] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
        for text in ["", "x", "-1", "9-8", "64:0", "64:1,", "1:2:3", "99999999999"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
        assert_eq!("16-1024".parse::<Sizes>().unwrap().maximum(), 1024);
    }

    #[test]
    fn sizes_are_drawn_by_weight() {
        let data = Data::new("10:3,2000:1".parse().unwrap(), Kind::Random, 1);
        let mut rng = Rng::new(2);
        let large = (0..40_000).filter(|_| data.draw(&mut rng).len() == 2000).count();
        // 10,000 expected, a deviation is 87.
        assert!((9_600..10_400).contains(&large), "{large}");
        let range = Data::new(Sizes::Range(3, 5), Kind::Constant, 1);
        let mut seen = [0; 6];
        (0..3000).for_each(|_| seen[range.draw(&mut rng).len()] += 1);
        assert!(
            seen[..3] == [0; 3] && seen[3..].iter().all(|&count| (850..1150).contains(&count)),
            "{seen:?}"
        );
    }

    #[test]
    fn a_key_has_one_value_and_keys_differ() {
        let data = Data::new(Sizes::Range(16, 64), Kind::Random, 9);
        assert_eq!(data.of_key(5), data.of_key(5));
        assert_ne!(data.of_key(5), data.of_key(6));
        assert_eq!(Data::new(Sizes::Fixed(3), Kind::Constant, 0).of_key(1), b"xxx");
    }
}
