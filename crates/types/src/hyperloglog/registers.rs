//! HOT: registers of 6 bits one after another, and registers of a byte each, in which several sketches are merged.

use super::estimate::{self, Histogram, VALUES};
use super::{Corrupt, Position, REGISTERS, REGISTERS_AT, is_dense, sparse};

const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
pub(super) const DENSE_REGISTERS_BYTES: usize = REGISTERS * REGISTER_BITS / 8;

/// Registers that are handled as one word: 8 of 6 bits are 6 bytes, packed in the lowest 48 bits, or spread over its 8 bytes.
const GROUP: usize = 8;
const GROUP_BYTES: usize = GROUP * REGISTER_BITS / 8;
const PACKED: u64 = (1 << (8 * GROUP_BYTES)) - 1;

/// Groups that are read together: 4 of 6 bytes are 3 words.
const ROW: usize = 4;
const ROW_BYTES: usize = ROW * GROUP_BYTES;

/// Groups that go through each step together, so that the compiler makes vector instructions of it.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = BLOCK * GROUP_BYTES;
const BLOCK_REGISTERS: usize = BLOCK * GROUP;

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

/// From a packed group to one that is spread.
#[inline]
fn spread(packed: u64) -> u64 {
    let halves = packed & 0x00ff_ffff | (packed & 0xffff_ff00_0000) << 8;
    let quarters = halves & 0x0000_0fff_0000_0fff | (halves & 0x00ff_f000_00ff_f000) << 4;
    quarters & 0x003f_003f_003f_003f | (quarters & 0x0fc0_0fc0_0fc0_0fc0) << 2
}

/// The reverse of [`spread`].
#[inline]
fn squeeze(bytes: u64) -> u64 {
    let quarters = bytes & 0x003f_003f_003f_003f | (bytes & 0x3f00_3f00_3f00_3f00) >> 2;
    let halves = quarters & 0x0000_0fff_0000_0fff | (quarters & 0x0fff_0000_0fff_0000) >> 4;
    halves & 0x00ff_ffff | (halves & 0x00ff_ffff_0000_0000) >> 8
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
pub struct Merged(Box<[u8; REGISTERS]>);

impl Default for Merged {
    fn default() -> Self {
        Merged(Box::new([0; REGISTERS]))
    }
}

impl Merged {
    /// Takes in the registers of a sketch.
    pub fn take(&mut self, sketch: &[u8]) -> Result<(), Corrupt> {
        if is_dense(sketch) {
            let blocks = self.0.as_chunks_mut::<BLOCK_REGISTERS>().0;
            for (merged, block) in blocks.iter_mut().zip(Dense::of(sketch).blocks()) {
                let mut registers = [0; BLOCK_REGISTERS];
                for (registers, group) in registers.as_chunks_mut().0.iter_mut().zip(block.map(spread)) {
                    *registers = group.to_le_bytes();
                }
                merged
                    .iter_mut()
                    .zip(registers)
                    .for_each(|(merged, register)| *merged = register.max(*merged));
            }
            return Ok(());
        }
        sparse::check(sketch)?;
        let mut start = 0;
        for run in sparse::runs(sketch) {
            if run.value > 0 {
                self.0[start..start + run.len]
                    .iter_mut()
                    .for_each(|register| *register = run.value.max(*register));
            }
            start += run.len;
        }
        Ok(())
    }

    /// Raises the register of an element.
    pub fn raise(&mut self, element: Position) {
        let register = &mut self.0[element.register];
        *register = element.rank.max(*register);
    }

    /// The number of different elements in all the sketches.
    pub fn count(&self) -> u64 {
        let mut tally = Tally::new();
        for registers in self.0.as_chunks::<BLOCK_REGISTERS>().0 {
            let groups = registers.as_chunks().0;
            tally.add(std::array::from_fn::<u64, BLOCK, _>(|at| u64::from_le_bytes(groups[at])).map(squeeze));
        }
        estimate::of(&tally.total())
    }

    /// The registers.
    pub fn registers(&self) -> &[u8; REGISTERS] {
        &self.0
    }

    /// What there is to add to a sketch: every register that is not zero.
    pub fn elements(&self) -> impl Iterator<Item = Position> {
        let all = self.0.iter().enumerate();
        all.filter(|(_, rank)| **rank > 0).map(|(register, rank)| Position { register, rank: *rank })
    }

    /// Writes the registers to a dense sketch.
    pub fn write_dense(&self, sketch: &mut [u8]) {
        let (groups, _) = sketch[REGISTERS_AT..].as_chunks_mut::<GROUP_BYTES>();
        for (packed, group) in groups.iter_mut().zip(self.0.as_chunks().0) {
            packed.copy_from_slice(&squeeze(u64::from_le_bytes(*group)).to_le_bytes()[..GROUP_BYTES]);
        }
    }
}
