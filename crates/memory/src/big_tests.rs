//! Tests of big values: sharing, copy on write, growth, and that runs go back.

use std::sync::Arc;
use std::thread;

use super::*;

fn arena() -> &'static Arena {
    Arena::reserve(1 << 30).unwrap()
}

#[test]
fn the_last_reference_returns_the_run() {
    let arena = arena();
    let big = BigRef::new(arena, &[7; 20_000]);
    assert_eq!(arena.bytes_used(), 20_480, "20,000 bytes and a header of 32 in five pages");
    let other = big.clone();
    drop(big);
    assert_eq!(other.as_ref(), &[7; 20_000]);
    assert_eq!(arena.bytes_used(), 20_480);
    thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!(arena.bytes_used(), 0);
}

#[test]
fn a_shared_value_is_copied_before_it_changes() {
    let arena = arena();
    let mut big = BigRef::new(arena, &[1; 30_000]);
    let reader = big.clone();
    big.make_mut(30_001)[0] = 2;
    assert_eq!(reader.as_ref(), &[1; 30_000]);
    assert_eq!((big.as_ref()[0], big.as_ref()[29_999], big.as_ref()[30_000]), (2, 1, 0));
    drop(reader);
    let place = big.as_ref().as_ptr();
    big.make_mut(100);
    assert_eq!(big.as_ref().as_ptr(), place, "a sole reference changes in place");
    assert_eq!(big.make_mut(102)[99..], [1, 0, 0], "what comes back after a shrink is 0");
}

#[test]
fn growth_is_amortised() {
    let arena = arena();
    let mut big = BigRef::new(arena, &[0; 16_385]);
    let end = if cfg!(miri) { 200_000 } else { 64 << 20 };
    let mut moves = 0;
    let mut place = big.as_ref().as_ptr();
    for length in (16_385..end).step_by(4000) {
        let bytes = big.make_mut(length);
        bytes[length - 1] = length as u8;
        if bytes.as_ptr() != place {
            (moves, place) = (moves + 1, bytes.as_ptr());
        }
    }
    assert!(moves <= 13, "4 KiB appends up to 64 MiB double about 12 times, not {moves}");
    assert!((16_385..end).step_by(4000).all(|length| big.as_ref()[length - 1] == length as u8));
    drop(big);
    assert_eq!(arena.bytes_used(), 0);
}

#[test]
fn references_on_many_threads() {
    let arena = arena();
    let big = Arc::new(BigRef::new(arena, &[9; 100_000]));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let big = Arc::clone(&big);
            thread::spawn(move || {
                for _ in 0..if cfg!(miri) { 20 } else { 10_000 } {
                    let mine = BigRef::clone(&big);
                    assert_eq!(mine.as_ref()[99_999], 9);
                }
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
    assert!(big.is_unique());
    drop(big);
    assert_eq!(arena.bytes_used(), 0);
}
