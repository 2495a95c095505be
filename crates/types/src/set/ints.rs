//! HOT: integers of one width, ascending: how a small set of integers lies in its entry. A view on the bytes; the set owns them.

use crate::packed::Region;

/// Bytes of an integer: 2, 4 or 8.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Width {
    Two,
    Four,
    Eight,
}

impl Width {
    /// The narrowest for an integer.
    pub(super) fn of(integer: i64) -> Width {
        match integer {
            -0x8000..=0x7FFF => Width::Two,
            -0x8000_0000..=0x7FFF_FFFF => Width::Four,
            _ => Width::Eight,
        }
    }

    #[inline]
    pub(super) fn bytes(self) -> usize {
        match self {
            Width::Two => 2,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// See the head of this file.
#[derive(Clone, Copy)]
pub(super) struct Ints<'a> {
    width: Width,
    bytes: &'a [u8],
}

impl<'a> Ints<'a> {
    #[inline]
    pub(super) fn new(width: Width, bytes: &'a [u8]) -> Ints<'a> {
        Ints { width, bytes }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.bytes.len() / self.width.bytes()
    }

    #[inline]
    pub(super) fn width(self) -> Width {
        self.width
    }

    /// The integer at a place, which must be below `len`.
    #[inline]
    pub(super) fn get(self, place: usize) -> i64 {
        let at = place * self.width.bytes();
        let read = "the place is below the length";
        match self.width {
            Width::Two => i16::from_le_bytes(*self.bytes[at..].first_chunk().expect(read)).into(),
            Width::Four => i32::from_le_bytes(*self.bytes[at..].first_chunk().expect(read)).into(),
            Width::Eight => i64::from_le_bytes(*self.bytes[at..].first_chunk().expect(read)),
        }
    }

    /// Where the integer is, or where it belongs. O(log n).
    #[inline]
    pub(super) fn find(self, wanted: i64) -> Result<usize, usize> {
        if Width::of(wanted) > self.width {
            return Err(if wanted < 0 { 0 } else { self.len() });
        }
        let (mut low, mut high) = (0, self.len());
        // What comes in order, comes at the end.
        if high > 0 && wanted > self.get(high - 1) {
            return Err(high);
        }
        while low < high {
            let middle = (low + high) / 2;
            let here = self.get(middle);
            if here == wanted {
                return Ok(middle);
            }
            if here < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Err(low)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = i64> + use<'a> {
        (0..self.len()).map(move |place| self.get(place))
    }
}

/// Puts an integer, which is not there yet, into the integers that begin `start` bytes into the region and end with it, wider if it must be; the
/// width then. `bytes_max` bounds them; None, and nothing has changed, if they would take more.
pub(super) fn insert(
    region: &mut impl Region,
    start: usize,
    width: Width,
    integer: i64,
    bytes_max: usize,
) -> Option<Width> {
    let ints = Ints::new(width, &region.bytes()[start..]);
    let place = match ints.find(integer) {
        Ok(place) | Err(place) => place,
    };
    let wider = width.max(Width::of(integer));
    let count = ints.len();
    if (count + 1) * wider.bytes() > bytes_max {
        return None;
    }
    if wider != width {
        let mut wide = Vec::with_capacity(count * wider.bytes());
        ints.iter().for_each(|integer| write(&mut wide, wider, integer));
        let old = count * width.bytes();
        region.splice(start, old, wide.len())[start..].copy_from_slice(&wide);
    }
    let size = wider.bytes();
    let at = start + place * size;
    region.splice(at, 0, size)[at..at + size].copy_from_slice(&integer.to_le_bytes()[..size]);
    Some(wider)
}

/// Appends an integer that fits.
pub(super) fn write(to: &mut Vec<u8>, width: Width, integer: i64) {
    to.extend_from_slice(&integer.to_le_bytes()[..width.bytes()]);
}
