//! Places for connections: each peer has its share, and who keeps one without asking anything makes room for who comes.
//!
//! A connection is cut for another one only while it awaits a head: first those that never had one, of these the oldest. So half a head
//! holds a place as long as nobody else wants it, and however many there are, a probe finds one.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, pin::Pin, task::Context};

use loopwarden_core::{limits, shares::Shares};
use tokio::sync::oneshot;

use crate::{descriptors, http::listener::phase::Phase};

/// All places, and who has them.
#[derive(Debug)]
pub(crate) struct Seats {
    /// Places of all peers together.
    all: usize,
    /// Places of one.
    share: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// By their numbers: older ones first.
    seats: BTreeMap<u64, Held>,
    by_peer: Shares<IpAddr>,
}

/// A place, as those see it who look for one.
#[derive(Debug)]
struct Held {
    peer: IpAddr,
    phase: Arc<Phase>,
    cut: oneshot::Sender<()>,
}

impl Taken {
    fn remove(&mut self, number: u64) -> Option<Held> {
        let held = self.seats.remove(&number)?;
        self.by_peer.give_back(&held.peer, 1);
        Some(held)
    }

    /// Cuts a connection of `peer` that awaits a head. Whether there was one.
    fn cut_one(&mut self, peer: IpAddr) -> bool {
        let waiting = self.seats.iter().filter(|(_, held)| held.peer == peer && !held.phase.is_answering());
        let Some(number) = waiting.min_by_key(|(number, held)| (held.phase.has_begun(), **number)).map(|(number, _)| *number)
        else {
            return false;
        };
        if let Some(held) = self.remove(number) {
            // Whoever has ended meanwhile hears nothing.
            let _ = held.cut.send(());
        }
        true
    }
}

/// Whose share a place is taken from: hosts of IPv6 have as many addresses as they like.
pub(crate) fn payer(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        ip => ip,
    }
}

impl Seats {
    pub(crate) fn new() -> Arc<Self> {
        // Where descriptors are few, the spare places are few as well.
        let all = descriptors::connections_max();
        Self::of(all, all - limits::HTTP_CONNECTIONS_SPARE.min(all / 8))
    }

    pub(crate) fn of(all: usize, share: usize) -> Arc<Self> {
        Arc::new(Self { all, share, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of a peer; none where all that could make room are being answered.
    pub(crate) fn take(self: &Arc<Self>, ip: IpAddr, phase: &Arc<Phase>) -> Option<Seat> {
        let peer = payer(ip);
        let mut taken = self.taken();
        if taken.by_peer.of(&peer) >= self.share && !taken.cut_one(peer) {
            return None;
        }
        if taken.seats.len() >= self.all {
            let peers: Vec<IpAddr> = taken.by_peer.by_most().copied().collect();
            if !peers.into_iter().any(|peer| taken.cut_one(peer)) {
                return None;
            }
        }
        let number = taken.next;
        taken.next += 1;
        let (cut, is_cut) = oneshot::channel();
        taken.by_peer.take(&peer, 1);
        taken.seats.insert(number, Held { peer, phase: Arc::clone(phase), cut });
        Some(Seat { number, peer, seats: Arc::clone(self), is_cut: Some(is_cut) })
    }
}

/// A place of a connection; given back with this value.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    peer: IpAddr,
    seats: Arc<Seats>,
    /// Says when somebody else has the place; none once it has said so.
    is_cut: Option<oneshot::Receiver<()>>,
}

impl Seat {
    /// Whether somebody else has the place now. Registers for that.
    pub(crate) fn is_lost(&mut self, cx: &mut Context<'_>) -> bool {
        if self.is_cut.as_mut().is_some_and(|cut| Pin::new(cut).poll(cx).is_ready()) {
            self.is_cut = None;
        }
        self.is_cut.is_none()
    }

    /// What the gate may ask of it.
    pub(crate) fn room(&self) -> Room {
        Room { peer: self.peer, seats: Arc::clone(&self.seats) }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken().remove(self.number);
    }
}

/// How much room there is for a peer.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    peer: IpAddr,
    seats: Arc<Seats>,
}

impl Room {
    /// Whether others, or others of this peer, may soon find no place.
    pub(crate) fn is_crowded(&self) -> bool {
        let taken = self.seats.taken();
        taken.seats.len() > self.seats.share || taken.by_peer.of(&self.peer) >= self.seats.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn is_lost(seat: &mut Seat) -> bool {
        seat.is_lost(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn take(seats: &Arc<Seats>, ip: IpAddr) -> (Arc<Phase>, Option<Seat>) {
        let phase = Arc::<Phase>::default();
        let seat = seats.take(ip, &phase);
        (phase, seat)
    }

    #[test]
    fn a_peer_beyond_its_share_displaces_its_own_oldest_half_head_and_nobody_elses() {
        let seats = Seats::of(4, 3);
        let mut other = take(&seats, OTHER).1.unwrap();
        let (answering, first) = take(&seats, ONE);
        let _answer = answering.answering();
        let (mut first, mut second, mut third) = (first.unwrap(), take(&seats, ONE).1.unwrap(), take(&seats, ONE).1.unwrap());
        let mut fourth = take(&seats, ONE).1.unwrap();
        assert!(is_lost(&mut second), "the oldest that awaits a head");
        assert!(![&mut other, &mut first, &mut third, &mut fourth].into_iter().any(is_lost));
        drop(second);
        assert_eq!(seats.taken().seats.len(), 4, "a place that was lost is not given back twice");
        let mut late = take(&seats, OTHER).1.unwrap();
        assert!(is_lost(&mut third) && !is_lost(&mut late), "whoever has the most makes room");
    }

    #[test]
    fn who_never_asked_goes_before_who_did_and_none_goes_amid_an_answer() {
        let seats = Seats::of(3, 2);
        let (asked, first) = take(&seats, ONE);
        drop(asked.answering());
        let (fresh, second) = take(&seats, ONE);
        let (mut first, mut second) = (first.unwrap(), second.unwrap());
        let (third, kept) = take(&seats, ONE);
        assert!(is_lost(&mut second) && !is_lost(&mut first));
        let _answers = [asked.answering(), third.answering(), fresh.answering()];
        assert!(take(&seats, ONE).1.is_none(), "both are being answered");
        assert!(take(&seats, OTHER).1.is_some());
        drop((first, kept));
        assert!(seats.taken().by_peer.of(&ONE) == 0 && take(&seats, ONE).1.is_some());
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_share() {
        let of = |text: &str| payer(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), ONE);
    }
}
