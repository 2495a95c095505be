//! HOT: HyperLogLog sketches as strings of bytes, the same bytes as the peers', so that GET, SET and their snapshots exchange them.
//!
//! Flajolet, Fusy, Gandouet, Meunier 2007 with 2^14 registers and a hash of 64 bits; estimated as in Ertl, "New cardinality estimation
//! algorithms for HyperLogLog sketches" (2017, section 4), which needs no table of corrections. Not what a command does with a key.
//!
//! ```text
//! "HYLL" 4 | encoding 1: 0 dense, 1 sparse | 0 3 | estimate 8, little-endian; the highest bit says that it is out of date | registers
//!
//! dense     16384 registers of 6 bits, the first in the lowest bits of the first byte
//! sparse    runs of equal registers, in order:
//!           00nnnnnn            1..=64 registers of 0
//!           01nnnnnn nnnnnnnn   1..=16384 registers of 0, high byte first
//!           1vvvvvnn            1..=4 registers of 1..=32
//! ```

mod estimate;
mod hash;
mod registers;
mod sparse;

pub use hash::Position;
pub use registers::Merged;
pub use sparse::decode;

use registers::Dense;

/// Registers of a sketch.
pub const REGISTERS: usize = 1 << INDEX_BITS;

/// Bits of the hash that choose a register.
const INDEX_BITS: u32 = 14;

/// Largest value of a register: the other bits of the hash can all be zero.
const RANK_MAX: usize = 64 - INDEX_BITS as usize + 1;

const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = MAGIC.len();
const ESTIMATE_AT: usize = ENCODING_AT + 1 + 3;
const REGISTERS_AT: usize = ESTIMATE_AT + size_of::<u64>();

/// Bytes of a dense sketch: 12304.
pub const DENSE_BYTES: usize = REGISTERS_AT + registers::DENSE_REGISTERS_BYTES;

/// In the highest byte of the estimate: it is out of date.
const OUT_OF_DATE: u8 = 0x80;

/// How the registers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Dense,
    Sparse,
}

/// The runs of a sparse sketch do not make up its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// The encoding of a string that is a sketch by its header and length. The runs of a sparse one are not looked at.
pub fn encoding(bytes: &[u8]) -> Option<Encoding> {
    if bytes.len() < REGISTERS_AT || !bytes.starts_with(MAGIC) {
        return None;
    }
    match bytes[ENCODING_AT] {
        0 if bytes.len() == DENSE_BYTES => Some(Encoding::Dense),
        1 => Some(Encoding::Sparse),
        _ => None,
    }
}

/// A sketch of nothing.
pub fn empty() -> Vec<u8> {
    let mut sketch = vec![0; REGISTERS_AT];
    sketch[..MAGIC.len()].copy_from_slice(MAGIC);
    sketch[ENCODING_AT] = 1;
    sparse::write_zeros(REGISTERS, &mut sketch);
    sketch
}

/// Whether adding an element changes a sketch.
pub fn changes(sketch: &[u8], element: Position) -> Result<bool, Corrupt> {
    let old = match is_dense(sketch) {
        true => Dense::of(sketch).get(element.register),
        false => sparse::find(sketch, element.register)?.run.value,
    };
    Ok(old < element.rank)
}

/// Adds an element to a dense sketch in place. Whether that changed it.
pub fn add_dense(sketch: &mut [u8], element: Position) -> bool {
    registers::raise(&mut sketch[REGISTERS_AT..], element)
}

/// Adds an element. Whether that changed the sketch. A sparse one becomes dense where it would exceed `sparse_bytes_max`, or a register 32.
pub fn add(sketch: &mut Vec<u8>, element: Position, sparse_bytes_max: usize) -> Result<bool, Corrupt> {
    if !is_dense(sketch) {
        match sparse::add(sketch, element, sparse_bytes_max)? {
            sparse::Added::Unchanged => return Ok(false),
            sparse::Added::Changed => return Ok(true),
            sparse::Added::NoRoom => make_dense(sketch)?,
        };
    }
    Ok(add_dense(sketch, element))
}

/// Turns a sketch into a dense one, if it is not; what is remembered of its estimate stays. Whether it was sparse.
pub fn make_dense(sketch: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if is_dense(sketch) {
        return Ok(false);
    }
    let mut dense = vec![0; DENSE_BYTES];
    dense[..REGISTERS_AT].copy_from_slice(&sketch[..REGISTERS_AT]);
    dense[ENCODING_AT] = 0;
    sparse::check(sketch)?;
    let mut register = 0;
    for run in sparse::runs(sketch) {
        for register in register..register + run.len {
            registers::raise(&mut dense[REGISTERS_AT..], Position { register, rank: run.value });
        }
        register += run.len;
    }
    *sketch = dense;
    Ok(true)
}

/// The estimate that a sketch remembers, if it is of today.
pub fn remembered(sketch: &[u8]) -> Option<u64> {
    let estimate = sketch[ESTIMATE_AT..].first_chunk().expect("a sketch has a header");
    (estimate[7] & OUT_OF_DATE == 0).then(|| u64::from_le_bytes(*estimate))
}

/// Makes a sketch remember its estimate.
pub fn remember(sketch: &mut [u8], estimate: u64) {
    sketch[ESTIMATE_AT..REGISTERS_AT].copy_from_slice(&estimate.to_le_bytes());
}

/// What a sketch remembers is out of date from now on.
pub fn forget(sketch: &mut [u8]) {
    sketch[REGISTERS_AT - 1] |= OUT_OF_DATE;
}

/// The number of different elements that were added, as estimated from the registers: 16384 steps for a dense sketch.
pub fn count(sketch: &[u8]) -> Result<u64, Corrupt> {
    if is_dense(sketch) {
        return Ok(estimate::of(&Dense::of(sketch).histogram()));
    }
    sparse::check(sketch)?;
    let mut histogram = [0; estimate::VALUES];
    sparse::runs(sketch).for_each(|run| histogram[usize::from(run.value)] += run.len as u32);
    Ok(estimate::of(&histogram))
}

fn is_dense(sketch: &[u8]) -> bool {
    sketch[ENCODING_AT] == 0
}

/// Looks for mistakes of the machine or the compiler: registers against a plain array, estimates against true numbers. The text says what is
/// wrong. Takes some milliseconds.
pub fn self_test() -> Result<(), String> {
    let mut sketch = empty();
    let mut merged = Merged::default();
    let mut added = 0_u64;
    for target in [1, 10, 100, 1_000, 10_000, 100_000] {
        while added < target {
            added += 1;
            let element = Position::of(&added.to_le_bytes());
            merged.raise(element);
            add(&mut sketch, element, 3000)
                .map_err(|Corrupt| format!("TESTFAILED corrupt after {added} elements"))?;
        }
        let estimate = count(&sketch).unwrap_or(0);
        // The standard error is 1.04 / sqrt(16384) = 0.81 %; four times that, and rounding.
        let bound = 1 + added / 30;
        if estimate.abs_diff(added) > bound {
            return Err(format!("TESTFAILED {added} elements are estimated as {estimate}"));
        }
        if merged.count() != estimate {
            return Err(format!("TESTFAILED the registers differ after {added} elements"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
