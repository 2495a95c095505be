//! The page allocator against a map of owned pages: nothing is handed out twice, everything comes back.

use std::collections::HashMap;

use super::*;
use crate::test_rng::Rng;

fn pages(chunks: usize) -> Pages {
    let metas: Vec<ChunkMeta> = (0..chunks)
        .map(|_| ChunkMeta {
            state: AtomicU64::new(0),
            used: [const { AtomicU16::new(0) }; 8],
            position: [const { AtomicU32::new(0) }; 8],
            previous: AtomicU32::new(0),
            next: AtomicU32::new(0),
        })
        .collect();
    Pages::new(Table(metas.leak()))
}

/// Walks the table and compares it with the lists and the counts.
fn check(pages: &Pages) {
    let mut free_dirty = 0;
    let mut chunk = 1;
    let mut listed = [0usize; 4];
    let mut spans = 0;
    while chunk < pages.frontier {
        let state = pages.table.state(chunk);
        let code = state & 15;
        if code == nibble::SPAN_CLEAN || code == nibble::SPAN_DIRTY {
            assert_eq!(state, nibble::ALL * code);
            let length = pages.table.meta(chunk).position[0].load(Relaxed);
            assert_eq!(pages.table.meta(chunk + length - 1).position[1].load(Relaxed), length);
            free_dirty += if code == nibble::SPAN_DIRTY { length * CHUNK_PAGES } else { 0 };
            spans += 1;
            chunk += length;
            assert!(
                chunk == pages.frontier || pages.table.state(chunk) != state,
                "free neighbours of a kind are merged"
            );
            continue;
        }
        if code == nibble::RUN_HEAD {
            let length = pages.table.run_pages(chunk * CHUNK_PAGES);
            if length >= CHUNK_PAGES {
                chunk += length / CHUNK_PAGES;
                if length.is_multiple_of(CHUNK_PAGES) {
                    continue;
                }
            }
        }
        let state = pages.table.state(chunk);
        assert_ne!(largest_piece(state), Some(ORDER_MAX), "a free chunk is a span");
        free_dirty += (free_pages(state) & !state).count_ones();
        if let Some(list) = largest_piece(state) {
            listed[list as usize] += 1;
        }
        chunk += 1;
    }
    assert_eq!(pages.counts.dirty, u64::from(free_dirty));
    for (list, &count) in listed.iter().enumerate() {
        assert_eq!(length_of(pages.table, pages.split[list]), count, "list {list}");
    }
    let in_bins = |spans: &Spans| spans.heads.iter().map(|&head| length_of(pages.table, head)).sum::<usize>();
    assert_eq!(in_bins(&pages.dirty) + in_bins(&pages.clean), spans);
}

fn length_of(table: Table, mut chunk: u32) -> usize {
    let mut count = 0;
    while chunk != NONE {
        count += 1;
        chunk = table.meta(chunk).next.load(Relaxed);
    }
    count
}

/// Takes a page or a run of random size, if the arena has one.
fn take_any(pages: &mut Pages, rng: &mut Rng) -> Option<(PageIndex, u32)> {
    match rng.below(4) {
        0 => {
            let order = 1 + rng.below(4);
            let min = 1 + rng.below(order);
            pages.take(For::Heap, min, order).map(|(first, order)| (first, 1 << order))
        }
        1 => {
            let order = rng.below(5);
            let taken = pages.take(For::Plain, order, order);
            assert!(taken.is_none_or(|(first, got)| got == order && first % (1 << order) == 0));
            taken.map(|(first, order)| (first, 1 << order))
        }
        2 => {
            let count = 1 + rng.below(40);
            pages.take_run(count).map(|first| (first, count))
        }
        _ => {
            let count = 1 + rng.below(600);
            pages.take_run(count).map(|first| (first, count))
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "safe code, and slow there")]
fn random_pages_and_runs_against_a_map() {
    let mut rng = Rng::new("pages");
    for round in 0..20 {
        let mut pages = pages(2000);
        let mut owned: HashMap<PageIndex, u32> = HashMap::new();
        let mut list: Vec<PageIndex> = Vec::new();
        for step in 0..4000 {
            let full = 20 + 30 * round;
            match rng.below(10) {
                0..=4 if list.len() < full => {
                    let taken = take_any(&mut pages, &mut rng);
                    let Some((first, count)) = taken else { continue };
                    for page in first..first + count {
                        assert!(
                            page >= CHUNK_PAGES && owned.insert(page, first).is_none(),
                            "page {page} is handed out twice"
                        );
                    }
                    list.push(first);
                }
                9 => {
                    if let Some((first, count)) = pages.take_dirty(1 + rng.below(64)) {
                        assert!((first..first + count).all(|page| !owned.contains_key(&page)));
                        pages.put_clean(first, count);
                    }
                }
                _ if !list.is_empty() => {
                    let first = list.swap_remove(rng.below(list.len() as u32) as usize);
                    pages.free(first);
                    owned.retain(|_, owner| *owner != first);
                }
                _ => {}
            }
            assert_eq!(pages.counts.used, owned.len() as u64);
            if step % 64 == 0 {
                check(&pages);
            }
        }
        list.into_iter().for_each(|first| pages.free(first));
        check(&pages);
        let PageCounts { used, heap, plain, runs, run_pages, .. } = pages.counts;
        assert_eq!((used, heap, plain, runs, run_pages), (0, [0; 5], [0; 5], 0, 0));
        while let Some((first, count)) = pages.take_dirty(1 << 20) {
            pages.put_clean(first, count);
        }
        assert_eq!(pages.counts.dirty, 0);
        check(&pages);
        assert_eq!(
            length_of(pages.table, pages.clean.heads[pages.clean.map.last().unwrap()]),
            1,
            "one span is left"
        );
    }
}

#[test]
fn a_smaller_page_is_taken_before_a_chunk_is_opened() {
    let mut pages = pages(100);
    let (first, order) = pages.take(For::Heap, 1, 1).unwrap();
    assert_eq!((first, order), (CHUNK_PAGES, 1));
    assert_eq!(pages.take(For::Heap, 1, 4).unwrap().1, 3, "32 KiB of the same chunk");
    assert_eq!(pages.take(For::Heap, 4, 4).unwrap(), (2 * CHUNK_PAGES, 4));
    assert_eq!(pages.take_run(16).unwrap(), 3 * CHUNK_PAGES);
    assert_eq!(pages.table.run_pages(3 * CHUNK_PAGES), 16);
}

#[test]
fn a_full_arena_says_so() {
    let mut pages = pages(4);
    assert!(pages.take_run(49).is_none());
    let run = pages.take_run(48).unwrap();
    assert!(pages.take(For::Plain, 0, 0).is_none());
    pages.free(run);
    assert!(pages.take(For::Plain, 0, 0).is_some());
}
