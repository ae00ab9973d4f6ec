//! Who holds how much of what many share. Whoever holds most gives first, so one within an equal share never gives for another; room that
//! others do not use is lent until they do.

use std::collections::{BTreeMap, BTreeSet};

/// What each holder has. Whoever has nothing takes no room here.
#[derive(Debug)]
pub struct Shares<K> {
    held: BTreeMap<K, usize>,
    /// The same, by amount.
    order: BTreeSet<(usize, K)>,
    all: usize,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { held: BTreeMap::new(), order: BTreeSet::new(), all: 0 }
    }
}

impl<K: Ord + Clone> Shares<K> {
    /// A holder takes so much more.
    pub fn take(&mut self, holder: &K, amount: usize) {
        self.set(holder, self.of(holder).saturating_add(amount));
    }

    /// A holder gives so much back, at most what it has.
    pub fn give_back(&mut self, holder: &K, amount: usize) {
        self.set(holder, self.of(holder).saturating_sub(amount));
    }

    fn set(&mut self, holder: &K, amount: usize) {
        let mut place = (self.of(holder), holder.clone());
        self.order.remove(&place);
        self.all = (self.all - place.0).saturating_add(amount);
        place.0 = amount;
        if amount > 0 {
            self.held.insert(holder.clone(), amount);
            self.order.insert(place);
        } else {
            self.held.remove(holder);
        }
    }

    /// What a holder has.
    pub fn of(&self, holder: &K) -> usize {
        self.held.get(holder).copied().unwrap_or_default()
    }

    /// What all have together.
    #[must_use]
    pub const fn all(&self) -> usize {
        self.all
    }

    /// What the others leave of so much.
    pub fn left_to(&self, holder: &K, all_max: usize) -> usize {
        all_max.saturating_sub(self.all - self.of(holder))
    }

    /// Whether a holder has more than an equal share of so much.
    pub fn is_over(&self, holder: &K, all_max: usize) -> bool {
        self.of(holder).saturating_mul(self.held.len()) > all_max
    }

    /// The holders; who has most comes first.
    pub fn by_most(&self) -> impl Iterator<Item = &K> {
        self.order.iter().rev().map(|(_, holder)| holder)
    }

    /// What those have together that do not have most.
    #[must_use]
    pub fn beside_most(&self) -> usize {
        self.all - self.order.last().map_or(0, |(amount, _)| *amount)
    }
}

#[cfg(test)]
mod tests {
    use super::Shares;

    #[test]
    fn each_is_over_where_it_has_more_than_an_equal_share_and_who_has_nothing_is_gone() {
        let mut shares: Shares<&str> = Shares::default();
        for (holder, amount) in [("a", 2), ("b", 1), ("c", 4), ("a", 1)] {
            shares.take(&holder, amount);
        }
        assert_eq!((shares.all(), shares.of(&"a"), shares.of(&"nobody")), (8, 3, 0));
        assert_eq!((shares.left_to(&"a", 10), shares.left_to(&"nobody", 10), shares.left_to(&"a", 4)), (5, 2, 0));
        assert!(!shares.is_over(&"a", 9) && shares.is_over(&"a", 8) && !shares.is_over(&"b", 8));
        let order = |shares: &Shares<&str>| shares.by_most().copied().collect::<String>();
        assert_eq!((order(&shares), shares.beside_most()), ("cab".to_owned(), 4));
        shares.give_back(&"c", 9);
        shares.give_back(&"a", 1);
        shares.give_back(&"nobody", 1);
        assert_eq!((shares.all(), order(&shares), shares.beside_most()), (3, "ab".to_owned(), 1));
    }
}
