//! HOT: registers of 6 bits one after another, and pairs of them in 16 bits, in which several sketches are merged.

use super::estimate::{self, Histogram, VALUES};
use super::{Corrupt, Position, REGISTERS, REGISTERS_AT, is_dense, sparse};

const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
pub(super) const DENSE_REGISTERS_BYTES: usize = REGISTERS * REGISTER_BITS / 8;

/// Registers that are handled as one word: 8 of 6 bits are 6 bytes, packed in the lowest 48 bits, or spread in pairs.
const GROUP: usize = 8;
const GROUP_BYTES: usize = GROUP * REGISTER_BITS / 8;
const PACKED: u64 = (1 << (8 * GROUP_BYTES)) - 1;

/// Pairs of registers in a group, and the first register of a pair.
const GROUP_PAIRS: usize = GROUP / 2;
const LOW: u16 = (1 << REGISTER_BITS) - 1;

/// Groups that are read together: 4 of 6 bytes are 3 words.
const ROW: usize = 4;
const ROW_BYTES: usize = ROW * GROUP_BYTES;

/// Groups that go through each step together, so that the compiler makes vector instructions of it.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = BLOCK * GROUP_BYTES;
const BLOCK_PAIRS: usize = BLOCK * GROUP_PAIRS;

/// The registers of a dense sketch.
#[derive(Clone, Copy)]
pub(super) struct Dense<'a>(&'a [u8]);

impl<'a> Dense<'a> {
    /// Of a sketch whose header says that it is dense, and whose length was checked with it.
    pub(super) fn of(sketch: &'a [u8]) -> Self {
        Dense(&sketch[REGISTERS_AT..])
    }

    pub(super) fn get(self, register: usize) -> u8 {
        let (byte, shift) = place(register);
        (window(self.0, byte) >> shift) as u8 & REGISTER_MAX
    }

    pub(super) fn histogram(self) -> Histogram {
        let mut tally = Tally::new();
        self.blocks().for_each(|block| tally.add(block));
        tally.total()
    }

    /// The registers in packed groups.
    #[inline]
    fn blocks(self) -> impl Iterator<Item = [u64; BLOCK]> {
        self.0.as_chunks::<BLOCK_BYTES>().0.iter().map(|bytes| {
            let mut block = [0; BLOCK];
            for (row, bytes) in
                block.as_chunks_mut::<ROW>().0.iter_mut().zip(bytes.as_chunks::<ROW_BYTES>().0)
            {
                let words = bytes.as_chunks().0;
                let [a, b, c] = [0, 1, 2].map(|word| u64::from_le_bytes(words[word]));
                *row = [a, a >> 48 | b << 16, b >> 32 | c << 32, c >> 16].map(|group| group & PACKED);
            }
            block
        })
    }
}

/// From a packed group to its pairs of registers: 12 bits each, in 16.
#[inline]
fn spread(packed: u64) -> u64 {
    let halves = packed & 0x00ff_ffff | (packed & 0xffff_ff00_0000) << 8;
    halves & 0x0000_0fff_0000_0fff | (halves & 0x00ff_f000_00ff_f000) << 4
}

/// The reverse of [`spread`].
#[inline]
fn squeeze(pairs: u64) -> u64 {
    let halves = pairs & 0x0000_0fff_0000_0fff | (pairs & 0x0fff_0000_0fff_0000) >> 4;
    halves & 0x00ff_ffff | (halves & 0x00ff_ffff_0000_0000) >> 8
}

/// The larger of both registers of two pairs.
#[inline]
fn larger(one: u16, other: u16) -> u16 {
    // As signed numbers, for which the oldest vector instructions have a maximum.
    let max = |mask: u16| (one & mask).cast_signed().max((other & mask).cast_signed()).cast_unsigned();
    max(LOW) | max(LOW << REGISTER_BITS)
}

/// The byte where a register begins, and by how many bits it is shifted there.
#[inline]
fn place(register: usize) -> (usize, usize) {
    let bit = register * REGISTER_BITS;
    (bit / 8, bit % 8)
}

/// Two bytes; the last register ends with the first of them.
#[inline]
fn window(registers: &[u8], byte: usize) -> u16 {
    u16::from_le_bytes([registers[byte], registers.get(byte + 1).copied().unwrap_or(0)])
}

/// Raises a dense register to an element's rank. Whether it was lower.
pub(super) fn raise(registers: &mut [u8], element: Position) -> bool {
    let (byte, shift) = place(element.register);
    let old = window(registers, byte);
    if (old >> shift) as u8 & REGISTER_MAX >= element.rank {
        return false;
    }
    let [low, high] =
        (old & !(u16::from(REGISTER_MAX) << shift) | u16::from(element.rank) << shift).to_le_bytes();
    registers[byte] = low;
    if let Some(next) = registers.get_mut(byte + 1) {
        *next = high;
    }
    true
}

/// Values of two registers at once.
const PAIRS: usize = VALUES * VALUES;

/// Counts values, two registers at a time: half as many additions, and seldom one to a place that waits for the one before it. Where most
/// registers are zero that would be often; there are two tables against it, and a row of zeroes is counted as a whole.
struct Tally {
    pairs: [[u16; PAIRS]; 2],
    zeros: u32,
}

impl Tally {
    fn new() -> Tally {
        Tally { pairs: [[0; PAIRS]; 2], zeros: 0 }
    }

    /// Takes in packed groups.
    #[inline]
    fn add(&mut self, block: [u64; BLOCK]) {
        for row in block.as_chunks::<ROW>().0 {
            if *row == [0; ROW] {
                self.zeros += (ROW * GROUP) as u32;
                continue;
            }
            for group in row {
                for pair in 0..GROUP / 2 {
                    self.pairs[pair % 2][(group >> (12 * pair)) as usize % PAIRS] += 1;
                }
            }
        }
    }

    /// Takes in pairs.
    #[inline]
    fn add_pairs(&mut self, pairs: &[u16; BLOCK_PAIRS]) {
        for row in pairs.as_chunks::<{ ROW * GROUP_PAIRS }>().0 {
            if *row == [0; ROW * GROUP_PAIRS] {
                self.zeros += (ROW * GROUP) as u32;
                continue;
            }
            for [even, odd] in row.as_chunks().0 {
                self.pairs[0][usize::from(*even) % PAIRS] += 1;
                self.pairs[1][usize::from(*odd) % PAIRS] += 1;
            }
        }
    }

    fn total(&self) -> Histogram {
        // 16 bits suffice: there are 8192 pairs.
        let (mut low, mut high) = ([0_u16; VALUES], [0_u16; VALUES]);
        for table in &self.pairs {
            for (high, row) in high.iter_mut().zip(table.as_chunks::<VALUES>().0) {
                low.iter_mut().zip(row).for_each(|(low, count)| *low += count);
                *high += row.iter().sum::<u16>();
            }
        }
        let mut histogram: Histogram =
            std::array::from_fn(|value| u32::from(low[value]) + u32::from(high[value]));
        histogram[0] += self.zeros;
        histogram
    }
}

/// The largest value of each register over several sketches.
#[derive(Default)]
pub struct Merged {
    /// Two registers each, the first in the lowest 6 bits, the second in the next; none at all while all registers are 0.
    pairs: Vec<u16>,
}

impl Merged {
    /// Takes in the registers of a sketch.
    pub fn take(&mut self, sketch: &[u8]) -> Result<(), Corrupt> {
        if is_dense(sketch) {
            self.take_dense(Dense::of(sketch));
            return Ok(());
        }
        sparse::check(sketch)?;
        let mut start = 0;
        for run in sparse::runs(sketch) {
            if run.value > 0 {
                for register in start..start + run.len {
                    self.raise(Position { register, rank: run.value });
                }
            }
            start += run.len;
        }
        Ok(())
    }

    fn take_dense(&mut self, dense: Dense<'_>) {
        let of_block = |block: [u64; BLOCK]| {
            let mut pairs = [0; BLOCK_PAIRS];
            for (pairs, group) in pairs.as_chunks_mut().0.iter_mut().zip(block.map(spread)) {
                *pairs = [group as u16, (group >> 16) as u16, (group >> 32) as u16, (group >> 48) as u16];
            }
            pairs
        };
        if self.pairs.is_empty() {
            self.pairs.reserve_exact(REGISTERS / 2);
            dense.blocks().for_each(|block| self.pairs.extend_from_slice(&of_block(block)));
            return;
        }
        for (merged, block) in self.pairs.as_chunks_mut::<BLOCK_PAIRS>().0.iter_mut().zip(dense.blocks()) {
            merged.iter_mut().zip(of_block(block)).for_each(|(merged, pair)| *merged = larger(*merged, pair));
        }
    }

    /// Raises the register of an element.
    pub fn raise(&mut self, element: Position) {
        if self.pairs.is_empty() {
            self.pairs.resize(REGISTERS / 2, 0);
        }
        let pair = &mut self.pairs[element.register / 2];
        *pair = larger(*pair, u16::from(element.rank) << (element.register % 2 * REGISTER_BITS));
    }

    /// The number of different elements in all the sketches.
    pub fn count(&self) -> u64 {
        let mut tally = Tally::new();
        match self.pairs.as_chunks::<BLOCK_PAIRS>().0 {
            [] => tally.zeros = REGISTERS as u32,
            blocks => blocks.iter().for_each(|pairs| tally.add_pairs(pairs)),
        }
        estimate::of(&tally.total())
    }

    /// The registers.
    pub fn registers(&self) -> impl Iterator<Item = u8> {
        let pair = |number| self.pairs.get(number).copied().unwrap_or(0);
        (0..REGISTERS).map(move |at| (pair(at / 2) >> (at % 2 * REGISTER_BITS)) as u8 & REGISTER_MAX)
    }

    /// What there is to add to a sketch: every register that is not zero.
    pub fn elements(&self) -> impl Iterator<Item = Position> {
        let all = self.registers().enumerate();
        all.filter(|(_, rank)| *rank > 0).map(|(register, rank)| Position { register, rank })
    }

    /// Writes the registers to a dense sketch.
    pub fn write_dense(&self, sketch: &mut [u8]) {
        let registers = &mut sketch[REGISTERS_AT..];
        if self.pairs.is_empty() {
            return registers.fill(0);
        }
        let (groups, _) = registers.as_chunks_mut::<GROUP_BYTES>();
        for (packed, [a, b, c, d]) in groups.iter_mut().zip(self.pairs.as_chunks().0) {
            let pairs = u64::from(*a) | u64::from(*b) << 16 | u64::from(*c) << 32 | u64::from(*d) << 48;
            packed.copy_from_slice(&squeeze(pairs).to_le_bytes()[..GROUP_BYTES]);
        }
    }
}
