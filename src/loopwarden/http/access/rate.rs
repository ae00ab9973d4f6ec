//! Requests per second. Whoever shows himself has a bucket of his own for each group of routes; all others one for each address they come
//! from. So nobody spends what is another one's, and least of all who was let in by nobody.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, net::IpAddr};

use loopwarden_log::clock::Stopwatch;

use crate::{http::access::principal::Purse, http::access::rule::Group, http::listener::seats::payer};

/// A thousandth of a request.
const MILLI: u64 = 1_000;
/// Requests per second, and at once, of an address from which nobody has shown himself: metrics, and what is refused.
const OF_STRANGER: Rate = Rate { per_second: 50, burst: 100 };
/// Addresses that are counted by themselves. More at once share what is left.
const STRANGERS_MAX: usize = 4_096;

/// So many per second, so many at once.
#[derive(Debug, Clone, Copy)]
struct Rate {
    per_second: u64,
    burst: u64,
}

/// What is left: thousandths of requests, and when that was, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: u64,
    since: u64,
}

impl Bucket {
    const fn full(rate: Rate, since: u64) -> Self {
        Self { left: rate.burst * MILLI, since }
    }

    fn now(&self, rate: Rate, now_ms: u64) -> u64 {
        // So many per second are as many thousandths per millisecond.
        let come = now_ms.saturating_sub(self.since).saturating_mul(rate.per_second);
        self.left.saturating_add(come).min(rate.burst * MILLI)
    }

    fn take(&mut self, rate: Rate, now_ms: u64) -> bool {
        let left = self.now(rate, now_ms);
        let is_taken = left >= MILLI;
        *self = Self { left: if is_taken { left - MILLI } else { left }, since: now_ms.max(self.since) };
        is_taken
    }
}

const fn rate(per_second: u64, burst: u64) -> Rate {
    Rate { per_second, burst }
}

/// What one who has shown himself may ask of a group, and its place among them; health is never refused.
const fn rate_of(group: Group) -> Option<(usize, Rate)> {
    match group {
        Group::Probe => None,
        Group::Open => Some((0, rate(50, 100))),
        Group::Admin => Some((1, rate(50, 200))),
        // Each request is a write and waits for a sync; a request may hold thousands of events.
        Group::Events => Some((2, rate(2_000, 4_000))),
        Group::Commands => Some((3, rate(500, 1_000))),
        Group::Checks => Some((4, rate(5_000, 10_000))),
    }
}

/// Groups that have a rate.
const GROUPS: usize = 5;

/// All buckets.
#[derive(Debug)]
pub(crate) struct Rates {
    clock: Stopwatch,
    /// Of this host, then of each token; a bucket for each group. None where nobody who has shown himself is bounded.
    known: Option<Vec<Mutex<[Option<Bucket>; GROUPS]>>>,
    strangers: Mutex<BTreeMap<Option<IpAddr>, Bucket>>,
}

impl Rates {
    /// Buckets for so many tokens.
    pub(crate) fn new(tokens: usize) -> Self {
        let known = (0..=tokens).map(|_| Mutex::default()).collect();
        Self { clock: Stopwatch::start(), known: Some(known), strangers: Mutex::default() }
    }

    /// Bounds strangers alone. A guard beside an agent is asked before each call: what it does not answer goes unguarded.
    pub(crate) fn of_strangers() -> Self {
        Self { clock: Stopwatch::start(), known: None, strangers: Mutex::default() }
    }

    /// Whether one more may be answered.
    pub(crate) fn take(&self, group: Group, purse: Purse) -> bool {
        self.take_at(group, purse, self.clock.elapsed().as_millis() as u64)
    }

    fn take_at(&self, group: Group, purse: Purse, now_ms: u64) -> bool {
        let Some((place, rate)) = rate_of(group) else { return true };
        let owner = match purse {
            Purse::Local => 0,
            Purse::Token(index) => index + 1,
            Purse::Stranger(ip) => return take_of_stranger(&mut held(&self.strangers), payer(ip), now_ms),
        };
        let Some(known) = &self.known else { return true };
        let Some(known) = known.get(owner) else { return false };
        held(known).get_mut(place).is_some_and(|bucket| bucket.get_or_insert(Bucket::full(rate, now_ms)).take(rate, now_ms))
    }
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_of_stranger(strangers: &mut BTreeMap<Option<IpAddr>, Bucket>, ip: IpAddr, now_ms: u64) -> bool {
    let mut of = Some(ip);
    if strangers.len() >= STRANGERS_MAX && !strangers.contains_key(&of) {
        // Whose bucket is full again may as well begin anew.
        strangers.retain(|_, bucket| bucket.now(OF_STRANGER, now_ms) < OF_STRANGER.burst * MILLI);
        of = of.filter(|_| strangers.len() < STRANGERS_MAX);
    }
    strangers.entry(of).or_insert(Bucket::full(OF_STRANGER, now_ms)).take(OF_STRANGER, now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_then_its_rate() {
        let rate = rate(2, 3);
        let mut bucket = Bucket::full(rate, 0);
        assert_eq!([0; 4].map(|at| bucket.take(rate, at)), [true, true, true, false]);
        assert!(!bucket.take(rate, 499));
        assert!(bucket.take(rate, 500));
        assert!(!bucket.take(rate, 500));
        assert!([3_600_000; 3].iter().all(|at| bucket.take(rate, *at)));
        assert!(!bucket.take(rate, 3_600_000), "more than the burst was saved up");
    }

    #[test]
    fn a_stranger_spends_nothing_of_anybody_else() {
        let rates = Rates::new(1);
        let stranger = |last: u8| Purse::Stranger(IpAddr::from([10, 0, 0, last]));
        let spend = |purse| (0..1_000).filter(|_| rates.take_at(Group::Admin, purse, 0)).count() as u64;
        assert_eq!(spend(stranger(1)), OF_STRANGER.burst);
        assert_eq!(spend(stranger(2)), OF_STRANGER.burst, "another address");
        assert_eq!(spend(Purse::Local), 200);
        assert_eq!(spend(Purse::Token(0)), 200);
        assert_eq!(spend(Purse::Token(0)), 0);
        assert!(!rates.take_at(Group::Admin, Purse::Token(1), 0), "there is no such token");
        let rates = Rates::of_strangers();
        let spend = |purse| (0..20_000).filter(|_| rates.take_at(Group::Checks, purse, 0)).count() as u64;
        assert_eq!((spend(stranger(1)), spend(Purse::Local), spend(Purse::Token(0))), (OF_STRANGER.burst, 20_000, 20_000));
    }

    #[test]
    fn addresses_without_end_take_no_memory_without_end() {
        let rates = Rates::new(0);
        let from = |number: u32| Purse::Stranger(IpAddr::from(number.to_be_bytes()));
        for number in 0..3 * STRANGERS_MAX as u32 {
            rates.take_at(Group::Open, from(number), 0);
        }
        assert_eq!(held(&rates.strangers).len(), STRANGERS_MAX + 1, "all beyond are one");
        assert!(!rates.take_at(Group::Open, from(u32::MAX), 0), "which has spent its share");
        assert!(rates.take_at(Group::Open, from(u32::MAX), 60_000), "those before have filled up, and make room");
        assert_eq!(held(&rates.strangers).len(), 1);
    }
}
