//! HOT: strings of one length, one behind the other: how a small set of them lies in its entry, without a byte for each. A view on the bytes; the
//! set owns them. None of them is the text of an integer.

/// See the head of this file.
#[derive(Clone, Copy)]
pub(super) struct Uniform<'a> {
    size: usize,
    bytes: &'a [u8],
}

impl<'a> Uniform<'a> {
    /// Strings of `size` bytes, at least 1.
    #[inline]
    pub(super) fn new(size: usize, bytes: &'a [u8]) -> Uniform<'a> {
        Uniform { size, bytes }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.bytes.len() / self.size
    }

    /// Bytes of each string.
    #[inline]
    pub(super) fn size(self) -> usize {
        self.size
    }

    /// The string at a place, which must be below `len`.
    #[inline]
    pub(super) fn get(self, place: usize) -> &'a [u8] {
        &self.bytes[place * self.size..][..self.size]
    }

    /// Where the string is.
    #[inline]
    pub(super) fn find(self, wanted: &[u8]) -> Option<usize> {
        if wanted.len() != self.size {
            return None;
        }
        // Words are compared several at a time.
        if let Ok(wanted) = <[u8; 8]>::try_from(wanted) {
            let wanted = u64::from_le_bytes(wanted);
            return self.bytes.as_chunks().0.iter().position(|bytes| u64::from_le_bytes(*bytes) == wanted);
        }
        if let Ok(wanted) = <[u8; 16]>::try_from(wanted) {
            let wanted = u128::from_le_bytes(wanted);
            return self.bytes.as_chunks().0.iter().position(|bytes| u128::from_le_bytes(*bytes) == wanted);
        }
        if let Some(head) = wanted.first_chunk::<8>() {
            let head = u64::from_le_bytes(*head);
            let same = |string: &[u8]| {
                string.first_chunk().is_some_and(|bytes| u64::from_le_bytes(*bytes) == head)
                    && string[8..] == wanted[8..]
            };
            return self.iter().position(same);
        }
        self.iter().position(|string| string == wanted)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks_exact(self.size)
    }
}
