//! HOT: registers as runs of equal values. The layout stands in `hyperloglog.rs`.
//!
//! Which runs an addition writes is part of the format: the same elements in the same order give the same bytes as the peers'. A run that is cut
//! gives up to three; equal neighbours are joined only near the cut.

use std::fmt::Write;

use super::{Corrupt, Position, REGISTERS, REGISTERS_AT};

/// Longest run of zeroes in one byte.
const SHORT_MAX: usize = 64;
/// Longest run of another value.
const VALUE_RUN_MAX: usize = 4;
/// Largest value of a run.
const VALUE_MAX: u8 = 32;

/// Equal registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) value: u8,
    pub(super) len: usize,
}

/// A run where it stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) run: Run,
    /// Its first byte in the sketch, and how many it has.
    at: usize,
    bytes: usize,
    /// Its first register.
    first: usize,
    /// The first byte of the run before it.
    before: Option<usize>,
}

/// What became of an addition.
pub(super) enum Added {
    Unchanged,
    Changed,
    /// Runs have no room for it: the sketch must become dense.
    NoRoom,
}

/// The run at byte `at`, and how many bytes it has.
#[inline]
fn run_at(sketch: &[u8], at: usize) -> Option<(Run, usize)> {
    let first = *sketch.get(at)?;
    let low = usize::from(first & 0x3f);
    Some(match first >> 6 {
        0 => (Run { value: 0, len: low + 1 }, 1),
        1 => (Run { value: 0, len: (low << 8 | usize::from(*sketch.get(at + 1)?)) + 1 }, 2),
        _ => (Run { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1 }, 1),
    })
}

/// The runs up to the end or to one that is cut off.
pub(super) fn runs(sketch: &[u8]) -> impl Iterator<Item = Run> {
    let mut at = REGISTERS_AT;
    std::iter::from_fn(move || {
        let (run, bytes) = run_at(sketch, at)?;
        at += bytes;
        Some(run)
    })
}

/// Whether the runs make up exactly all registers.
pub(super) fn check(sketch: &[u8]) -> Result<(), Corrupt> {
    let (mut at, mut registers) = (REGISTERS_AT, 0);
    while let Some((run, bytes)) = run_at(sketch, at) {
        (at, registers) = (at + bytes, registers + run.len);
    }
    if at == sketch.len() && registers == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// The run of a register.
#[inline]
pub(super) fn find(sketch: &[u8], register: usize) -> Result<Place, Corrupt> {
    let (mut at, mut first, mut before) = (REGISTERS_AT, 0, None);
    loop {
        let (run, bytes) = run_at(sketch, at).ok_or(Corrupt)?;
        if register < first + run.len {
            return Ok(Place { run, at, bytes, first, before });
        }
        (before, at, first) = (Some(at), at + bytes, first + run.len);
    }
}

/// Runs that take the place of one: at most two long ones of zeroes around a value.
#[derive(Default)]
struct Written {
    bytes: [u8; 5],
    len: usize,
}

impl Written {
    fn run(&mut self, value: u8, len: usize) {
        match (value, len) {
            (_, 0) => {}
            (0, ..=SHORT_MAX) => self.byte(len as u8 - 1),
            (0, _) => long_zeros(len).into_iter().for_each(|byte| self.byte(byte)),
            _ => self.byte(value_run(value, len)),
        }
    }

    fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

fn long_zeros(len: usize) -> [u8; 2] {
    let [high, low] = (len as u16 - 1).to_be_bytes();
    [0x40 | high, low]
}

fn value_run(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len as u8 - 1)
}

/// Appends a run of `len` (65 to 16384) zeroes.
pub(super) fn write_zeros(len: usize, sketch: &mut Vec<u8>) {
    sketch.extend_from_slice(&long_zeros(len));
}

/// Adds an element.
pub(super) fn add(sketch: &mut Vec<u8>, element: Position, bytes_max: usize) -> Result<Added, Corrupt> {
    if element.rank > VALUE_MAX {
        return Ok(Added::NoRoom);
    }
    let place = find(sketch, element.register)?;
    if place.run.value >= element.rank {
        return Ok(Added::Unchanged);
    }
    let mut written = Written::default();
    written.run(place.run.value, element.register - place.first);
    written.run(element.rank, 1);
    written.run(place.run.value, place.first + place.run.len - 1 - element.register);
    if written.len > place.bytes && sketch.len() + written.len - place.bytes > bytes_max {
        return Ok(Added::NoRoom);
    }
    sketch.splice(place.at..place.at + place.bytes, written.bytes[..written.len].iter().copied());
    join(sketch, place.before.unwrap_or(REGISTERS_AT));
    Ok(Added::Changed)
}

/// Joins neighbours of one value among the next five runs, a joined one counted again with what follows it.
fn join(sketch: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        let Some((run, bytes)) = run_at(sketch, at) else { return };
        if let Some((next, 1)) = run_at(sketch, at + bytes)
            && run.value > 0
            && next.value == run.value
            && next.len + run.len <= VALUE_RUN_MAX
        {
            sketch[at + 1] = value_run(run.value, run.len + next.len);
            sketch.remove(at);
        } else {
            at += bytes;
        }
    }
}

/// The runs as text, whether they make up all registers or not: `Z:n` and `z:n` for zeroes in two bytes and in one, `v:value,n` for others.
pub fn decode(sketch: &[u8]) -> String {
    let mut text = String::new();
    let mut at = REGISTERS_AT;
    while let Some((run, bytes)) = run_at(sketch, at) {
        let blank = if at == REGISTERS_AT { "" } else { " " };
        let written = match (run.value, bytes) {
            (0, 1) => write!(text, "{blank}z:{}", run.len),
            (0, _) => write!(text, "{blank}Z:{}", run.len),
            (value, _) => write!(text, "{blank}v:{value},{}", run.len),
        };
        written.expect("a string takes any text");
        at += bytes;
    }
    text
}
