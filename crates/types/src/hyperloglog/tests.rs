//! Sketches against plain arrays of registers and against the definition of the estimate.

use stdx::rng::Rng;

use super::*;

/// Registers one by one, whatever the encoding.
fn registers(sketch: &[u8]) -> Vec<u8> {
    if is_dense(sketch) {
        return (0..REGISTERS).map(|register| Dense::of(sketch).get(register)).collect();
    }
    sparse::runs(sketch).flat_map(|run| std::iter::repeat_n(run.value, run.len)).collect()
}

#[test]
fn both_encodings_hold_what_was_added() {
    for seed in 1..=12 {
        let mut rng = Rng::new(seed);
        let mut model = vec![0; REGISTERS];
        let mut sketch = empty();
        let bytes_max = [0, 40, 3000, 16_000][seed as usize % 4];
        // Few registers, so that runs are cut and joined.
        let span = [40, 600, REGISTERS][rng.range(0..3)];
        for step in 0..3_000 {
            let rank_max = if rng.one_in(500) { 51 } else { 6 };
            let element = Position { register: rng.range(0..span), rank: 1 + rng.below(rank_max) as u8 };
            let grows = model[element.register] < element.rank;
            assert_eq!(changes(&sketch, element), Ok(grows), "seed {seed}, step {step}");
            assert_eq!(add(&mut sketch, element, bytes_max), Ok(grows), "seed {seed}, step {step}");
            model[element.register] = element.rank.max(model[element.register]);
            if step % 100 == 0 {
                assert_eq!(registers(&sketch), model, "seed {seed}, step {step}");
            }
        }
        assert_eq!(registers(&sketch), model, "seed {seed}");
        let sparse = encoding(&sketch) == Some(Encoding::Sparse);
        assert!(!sparse || sketch.len() <= bytes_max, "seed {seed}");
        let before = count(&sketch);
        assert_eq!(make_dense(&mut sketch), Ok(sparse));
        assert_eq!((registers(&sketch), count(&sketch)), (model, before), "seed {seed}");
        assert_eq!(encoding(&sketch), Some(Encoding::Dense));
    }
}

#[test]
fn merging_takes_the_largest_of_each() {
    let seed = 5;
    let mut rng = Rng::new(seed);
    for round in 0..12 {
        let mut model = vec![0; REGISTERS];
        let mut merged = Merged::default();
        for _ in 0..1 + rng.below(4) {
            let mut sketch = empty();
            for _ in 0..[10, 1_000, 10_000][rng.range(0..3)] {
                let element = Position::of(&rng.next_u64().to_le_bytes());
                add(&mut sketch, element, 3000).unwrap();
                model[element.register] = element.rank.max(model[element.register]);
            }
            merged.take(&sketch).unwrap();
        }
        assert_eq!(merged.registers().collect::<Vec<u8>>(), model, "seed {seed}, round {round}");
        let mut dense = empty();
        make_dense(&mut dense).unwrap();
        merged.write_dense(&mut dense);
        assert_eq!(registers(&dense), model, "seed {seed}, round {round}");
        assert_eq!(count(&dense), Ok(merged.count()), "seed {seed}, round {round}");
        let mut sparse = empty();
        merged.elements().for_each(|element| {
            add(&mut sparse, element, 16_000).unwrap();
        });
        assert_eq!(registers(&sparse), model, "seed {seed}, round {round}");
    }
}

/// What bits a client may send: nothing panics, and what is no sketch is refused.
#[test]
fn foreign_bytes() {
    let seed = 9;
    let mut rng = Rng::new(seed);
    for round in 0..3_000 {
        let mut sketch = empty();
        for _ in 0..rng.below(50) {
            add(&mut sketch, Position::of(&rng.next_u64().to_le_bytes()), 3000).unwrap();
        }
        for _ in 0..1 + rng.below(3) {
            let at = rng.range(0..sketch.len());
            sketch[at] = rng.next_u64() as u8;
        }
        sketch.truncate(rng.range(0..sketch.len() + 1));
        if encoding(&sketch).is_none() {
            continue;
        }
        let mut longer = sketch.clone();
        longer.push(0);
        let cut_off = registers(&longer).len() > registers(&sketch).len() + 1;
        let sound = registers(&sketch).len() == REGISTERS && !cut_off;
        assert_eq!(count(&sketch).is_ok(), sound, "seed {seed}, round {round}");
        assert_eq!(Merged::default().take(&sketch).is_ok(), sound, "seed {seed}, round {round}");
        let _ = decode(&sketch);
        for register in [0, 100, REGISTERS - 1] {
            let _ = add(&mut sketch, Position { register, rank: 7 }, 3000);
        }
    }
    assert_eq!(encoding(b"HYLL"), None);
    assert_eq!(encoding(&[b"HYLL".as_slice(), &[0; 12_299]].concat()), None);
    assert_eq!(encoding(&[b"HYLL".as_slice(), &[0; 12_300]].concat()), Some(Encoding::Dense));
    assert_eq!(encoding(&[b"HYLL".as_slice(), &[2; 12_300]].concat()), None);
}

#[test]
fn what_is_remembered() {
    let mut sketch = empty();
    assert_eq!(remembered(&sketch), Some(0));
    remember(&mut sketch, 77);
    assert_eq!(remembered(&sketch), Some(77));
    forget(&mut sketch);
    assert_eq!(remembered(&sketch), None);
}

#[test]
fn the_test_that_pfselftest_runs() {
    assert_eq!(self_test(), Ok(()));
}
