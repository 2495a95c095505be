//! Fields by chance, each as likely: one, several with repetition, several different ones. Fields that have expired are not drawn.

use std::collections::HashSet;

use stdx::rng::Rng;

use super::{Field, Fields, Hash, read_field};

/// Draws per wanted field before a table of which much may have expired is walked instead.
const TRIES_PER_FIELD: usize = 16;

impl<'a> Hash<'a> {
    /// A field by chance. None only when there is none.
    pub fn random(&self, rng: &mut Rng) -> Option<Field<'a>> {
        if let Fields::Large(table) = self.fields {
            for _ in 0..TRIES_PER_FIELD {
                let element = table.element(table.random(rng)?);
                if !element.is_expired(self.now_ms) {
                    return Some(Field::of(table, element));
                }
            }
        }
        let mut chosen = None;
        self.random_distinct(rng, 1, |field| chosen = Some(field));
        chosen
    }

    /// `count` fields by chance, one as likely as another each time. None at all if there is none.
    pub fn random_repeating(&self, rng: &mut Rng, count: usize, f: impl FnMut(Field<'a>)) {
        let Fields::Packed(packed, shape) = self.fields else {
            return (0..count).filter_map(|_| self.random(rng)).for_each(f);
        };
        let mut fields = Vec::new();
        let mut walk = packed.iter();
        while let Some(field) = read_field(&mut walk, shape) {
            if field.is_alive(self.now_ms) {
                fields.push(field);
            }
        }
        (0..count).filter_map(|_| rng.pick(&fields).copied()).for_each(f);
    }

    /// `count` different fields by chance, each set of them as likely; all of them if there are not more.
    pub fn random_distinct(&self, rng: &mut Rng, count: usize, mut f: impl FnMut(Field<'a>)) {
        if let Fields::Large(table) = self.fields
            && count <= table.len() / 4
        {
            let mut drawn = HashSet::new();
            for _ in 0..count * TRIES_PER_FIELD {
                let Some(handle) = table.random(rng) else { break };
                if !table.element(handle).is_expired(self.now_ms) {
                    drawn.insert(handle);
                }
                if drawn.len() == count {
                    return drawn.into_iter().for_each(|handle| f(Field::of(table, table.element(handle))));
                }
            }
        }
        // One walk: of the fields that are left each is taken with the chance that so many of so many are still wanted (Knuth's algorithm S).
        let mut left = self.count_alive();
        let mut wanted = count.min(left);
        self.for_each(|field| {
            if wanted > 0 && rng.below(left as u64) < wanted as u64 {
                wanted -= 1;
                f(field);
            }
            left = left.saturating_sub(1).max(1);
        });
    }
}
