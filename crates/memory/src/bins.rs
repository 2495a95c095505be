//! Size bins: the arithmetic that the block heap and the span allocator share. Exact bins for small sizes, eight per
//! doubling above, and a bitmap of the bins that hold something. Not a list: the owners keep the heads.

/// One bit per bin, so that "the next non-empty bin" is at most three words away.
#[derive(Clone, Copy, Default)]
pub(crate) struct BinMap([u64; 3]);

/// Bins that a [`BinMap`] can name.
pub(crate) const BINS_MAX: usize = 3 * 64;

impl BinMap {
    pub(crate) fn set(&mut self, bin: usize) {
        self.0[bin / 64] |= 1 << (bin % 64);
    }

    pub(crate) fn clear(&mut self, bin: usize) {
        self.0[bin / 64] &= !(1 << (bin % 64));
    }

    /// The first non-empty bin at or after `bin`.
    pub(crate) fn first_from(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = *self.0.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The last non-empty bin.
    pub(crate) fn last(&self) -> Option<usize> {
        let word = self.0.iter().rposition(|&bits| bits != 0)?;
        Some(word * 64 + 63 - self.0[word].leading_zeros() as usize)
    }
}

/// The bin of `size` units: exact below `2^EXACT_LOG`, then eight bins per doubling (each 1/8 of its power of two wide).
#[inline(always)]
pub(crate) const fn bin_of<const EXACT_LOG: u32>(size: u32) -> usize {
    if size < 1 << EXACT_LOG {
        return size as usize;
    }
    let log = 31 - size.leading_zeros();
    (1 << EXACT_LOG) + (8 * (log - EXACT_LOG)) as usize + ((size >> (log - 3)) & 7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_monotonous_and_every_higher_bin_is_larger() {
        let mut last = 0;
        for size in 0..=16384u32 {
            let bin = bin_of::<7>(size);
            assert!(bin == last || bin == last + 1, "size {size}: bin {last} -> {bin}");
            last = bin;
        }
        assert_eq!(last, 128 + 7 * 8);
        assert_eq!(bin_of::<4>((1 << 26) - 1), BINS_MAX - 1);
    }

    #[test]
    fn the_map_finds_the_next_bin() {
        let mut map = BinMap::default();
        assert_eq!(map.first_from(0), None);
        assert_eq!(map.last(), None);
        for bin in [3, 64, 191] {
            map.set(bin);
        }
        assert_eq!([0, 4, 65].map(|bin| map.first_from(bin)), [Some(3), Some(64), Some(191)]);
        assert_eq!(map.first_from(192), None);
        map.clear(191);
        assert_eq!(map.first_from(65), None);
        assert_eq!(map.last(), Some(64));
    }
}
