//! A small seedable generator for sampling, skip decisions and tests: xoshiro256++ (Blackman and Vigna 2019),
//! seeded through splitmix64. Not for secrets.

/// 256 bits of state. Not `Copy`: a copied generator would repeat itself unseen.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The same seed gives the same sequence, on every machine.
    pub const fn new(seed: u64) -> Rng {
        let mut state = [0; 4];
        let mut next = seed;
        let mut index = 0;
        while index < 4 {
            next = next.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = next;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state[index] = mixed ^ (mixed >> 31);
            index += 1;
        }
        Rng(state)
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// 32 uniform bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Uniform in `0..bound`; exactly uniform (Lemire 2019). `bound` must not be 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            // The low half decides whether this draw belongs to the few that would favour some results.
            if product as u64 >= bound || product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Uniform in `range`, which must not be empty.
    #[inline]
    pub fn range(&mut self, range: std::ops::Range<usize>) -> usize {
        range.start + self.below((range.end - range.start) as u64) as usize
    }

    /// Uniform in `0.0..1.0`, 53 bits.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True once in `n` draws on average. `n` must not be 0.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Fills `bytes` with uniform bits.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// A uniform element, or none of an empty slice.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.range(0..items.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_sequence() {
        // The first outputs of xoshiro256++ from the state 1, 2, 3, 4 (reference implementation).
        let mut rng = Rng([1, 2, 3, 4]);
        assert_eq!([rng.next_u64(), rng.next_u64(), rng.next_u64()], [41943041, 58720359, 3588806011781223]);
    }

    #[test]
    fn below_is_uniform_and_bounded() {
        let mut rng = Rng::new(3);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[rng.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(rng.below(1), 0);
        assert!((0..1000).all(|_| rng.below(u64::MAX) < u64::MAX));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&rng.unit_f64())));
        assert_eq!(rng.pick::<u8>(&[]), None);
    }
}
