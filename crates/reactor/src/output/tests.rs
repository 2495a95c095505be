//! The outbox against a plain vector of bytes.

use std::sync::Arc;

use stdx::rng::Rng;

use super::*;

/// What `fill` describes, copied. The spans point into the outbox, which the caller keeps.
#[allow(unsafe_code, reason = "spans are raw")]
fn described(outbox: &Outbox, spans_max: usize, bytes_max: usize) -> Vec<u8> {
    let empty = IoVec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut spans = vec![empty; spans_max];
    let (count, bytes) = outbox.fill(&mut spans, bytes_max);
    let mut all = Vec::new();
    for span in &spans[..count] {
        assert!(span.iov_len > 0, "no span is empty");
        // SAFETY: `fill` describes live memory of the outbox.
        all.extend_from_slice(unsafe {
            std::slice::from_raw_parts(span.iov_base.cast::<u8>(), span.iov_len)
        });
    }
    assert_eq!(all.len(), bytes);
    assert!(bytes <= bytes_max);
    all
}

#[test]
fn bytes_come_out_as_they_went_in() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    for _ in 0..200 {
        let (mut outbox, mut pool, mut model) = (Outbox::default(), Pool::default(), Vec::new());
        for _ in 0..200 {
            match rng.below(3) {
                0 => push_random(&mut rng, &mut outbox, &mut pool, &mut model),
                1 => {
                    let count = rng.range(0..model.len() + 1);
                    outbox.advance(count, &mut pool);
                    model.drain(..count);
                }
                _ => {
                    let (spans_max, bytes_max) = (rng.range(1..SPANS_MAX + 1), rng.range(1..200_000));
                    let before = described(&outbox, spans_max, bytes_max);
                    assert!(model.starts_with(&before));
                    assert_eq!(before.is_empty(), model.is_empty());
                }
            }
            assert_eq!(outbox.pending(), model.len());
            if let Some(single) = outbox.single() {
                assert_eq!(single, model);
            }
        }
        outbox.clear(&mut pool);
        assert_eq!((outbox.pending(), outbox.rest.capacity()), (0, 0));
    }
}

fn push_random(rng: &mut Rng, outbox: &mut Outbox, pool: &mut Pool, model: &mut Vec<u8>) {
    let mut output = Output { bytes: pool.take(), shared: Vec::new() };
    for _ in 0..rng.below(5) {
        let mut bytes = vec![0; if rng.one_in(20) { rng.range(0..70_000) } else { rng.range(0..20) }];
        rng.fill(&mut bytes);
        model.extend_from_slice(&bytes);
        if rng.one_in(3) {
            output.shared.push((output.bytes.len(), Arc::new(bytes)));
        } else {
            output.bytes.extend_from_slice(&bytes);
        }
    }
    outbox.push(output, pool);
}

/// A slow reader of many small messages holds their bytes, not a buffer for each.
#[test]
fn small_messages_are_merged() {
    let (mut outbox, mut pool) = (Outbox::default(), Pool::default());
    outbox.push(b"in the kernel".to_vec().into(), &mut pool);
    for _ in 0..10_000 {
        outbox.push(b"0123456789".to_vec().into(), &mut pool);
    }
    assert!(outbox.rest.len() <= 2, "{} pieces", outbox.rest.len());
    let capacity: usize = outbox.rest.iter().map(|piece| piece.bytes.capacity()).sum();
    assert!(capacity <= 4 * 100_000, "{capacity}");
}

/// A segment is let go as soon as its last byte is out.
#[test]
fn segments_are_let_go() {
    let (mut outbox, mut pool) = (Outbox::default(), Pool::default());
    let segment: SharedBytes = Arc::new(vec![1; 100]);
    let shared = vec![(1, Arc::clone(&segment)), (1, Arc::clone(&segment))];
    outbox.push(Output { bytes: b"<>".to_vec(), shared }, &mut pool);
    assert_eq!(outbox.pending(), 202);
    outbox.advance(100, &mut pool);
    assert_eq!(Arc::strong_count(&segment), 3);
    outbox.advance(1, &mut pool);
    assert_eq!(Arc::strong_count(&segment), 2);
    outbox.advance(101, &mut pool);
    assert_eq!((Arc::strong_count(&segment), outbox.pending()), (1, 0));
}
