//! The conditions that must hold after every event.

use std::time::Duration;

use lock_core::{Convert, Mode, OwnerToken};

use super::store::Reply;
use super::{Granted, OF, Sent, Upgrading, Waiter, World};
use crate::engine::machine::{Denial, Ticket};
use crate::engine::tests::common::Limit;

impl World {
    pub(super) fn check_denial(&self, denial: &Denial, limit: Limit) {
        match denial {
            Denial::WouldBlock => assert!(matches!(limit, Limit::Try)),
            Denial::Timeout(_) => assert!(matches!(limit, Limit::Millis(_))),
            Denial::Failed(error) => {
                assert!(self.failed, "{error:?}");
            }
            Denial::Lost(_) => {}
            Denial::Closed => panic!("nothing was closed"),
        }
    }

    pub(super) fn served(&mut self, arrival: u32, began: u64, ticket: Ticket, mode: Mode) {
        let serial = ticket.hold.serial();
        self.granted(began, ticket.token.get(), mode);
        if !mode.is_joint() {
            let before = self.history.served.range(..arrival).next_back();
            let after = self.history.served.range(arrival..).next();
            assert!(before.is_none_or(|(_, before)| *before < serial), "{arrival} came too early");
            assert!(after.is_none_or(|(_, after)| *after > serial), "{arrival} came too late");
            self.history.served.insert(arrival, serial);
        }
        let token = ticket.token.get();
        for (other, (theirs, how)) in &self.history.tokens {
            let (first, second, later) =
                if *other < serial { (*theirs, token, mode) } else { (token, *theirs, *how) };
            let alone = |mode: &Mode| *mode == Mode::Exclusive;
            let fine = match later {
                Mode::Permits { .. } => second != first,
                Mode::Exclusive => second > first,
                Mode::Joint { .. } if *how == mode => second >= first,
                Mode::Joint { .. } => second > first,
                // Each reader has the token of its own lease, and this process may have several leases for readers.
                _ => second >= first || !alone(if *other < serial { how } else { &mode }),
            };
            assert!(fine, "{later:?} has {second} after {first}");
        }
        self.history.tokens.insert(serial, (token, mode));
        if mode.counts() {
            self.permit(&ticket);
        }
        self.holding.push((ticket, mode));
    }

    /// The token of a permit is above the tokens of all leases that ended before its own lease was asked for.
    fn permit(&mut self, ticket: &Ticket) {
        let Some(owner) = self.machine.claim(ticket.hold).map(|claim| claim.owner) else { return };
        let token = ticket.token.get();
        let asked =
            self.history.asked.iter().find(|(one, _)| *one == owner).map_or(0, |(_, asked)| *asked);
        for (before, ended) in &self.history.ended {
            assert!(*ended >= asked || *before < token, "a permit has {token} after {before}");
        }
        self.history.permits.push((owner, token));
    }

    /// Notes that the lease of this owner has ended.
    pub(super) fn end_of(&mut self, owner: OwnerToken) {
        let theirs = self.history.permits.iter().filter(|(one, _)| *one == owner);
        self.history
            .ended
            .extend(theirs.map(|(_, token)| *token).max().map(|token| (token, self.events)));
    }

    /// A caller that asks after an earlier grant gets a higher token than that grant.
    pub(super) fn granted(&mut self, began: u64, token: u64, mode: Mode) {
        let plain = |mode: Mode| !mode.is_joint() && !mode.counts();
        let reads = |mode: Mode| matches!(mode, Mode::Shared | Mode::Upgradable);
        for before in &self.grants {
            if before.came < began
                && plain(mode)
                && plain(before.mode)
                && !(reads(mode) && reads(before.mode))
            {
                // Readers share the token of a writer that has downgraded to a reader.
                let fine = before.token < token || reads(mode) && before.token == token;
                assert!(fine, "{mode:?} has {token} after {before:?}");
            }
        }
        self.grants.push(Granted { came: self.events, token, mode });
    }

    fn is_valid(&self, ticket: &Ticket) -> bool {
        ticket.lease.is_valid(self.now())
            && ticket.lease.loss(ticket.hold.serial()).is_none()
            && self.now() < ticket.hold_until
    }

    /// The modes of simultaneous holders are compatible.
    pub(super) fn check(&self) {
        let now = self.now();
        let upgrading = self.upgrading.iter().map(|it| (&it.ticket, Mode::Upgradable));
        let guards = self.holding.iter().map(|(ticket, mode)| (ticket, *mode)).chain(upgrading);
        let mut valid: Vec<Mode> =
            guards.filter(|(ticket, _)| self.is_valid(ticket)).map(|(_, mode)| mode).collect();
        let theirs = self.rivals.iter().filter(|rival| now < rival.until);
        valid.extend(std::iter::repeat_n(Mode::Shared, self.valid_readers()));
        valid.extend(theirs.filter_map(|rival| rival.claim.as_ref().map(|claim| claim.mode)));
        for (nth, mode) in valid.iter().enumerate() {
            let others = valid[nth + 1..].iter().copied();
            assert!(mode.fits_beside(others, OF), "{mode:?} in {valid:?}");
        }
        self.check_tries();
        for owner in self.machine.renewing() {
            let is_it = |sent: &Sent| match sent {
                Sent::Renew(request, _) => request.claim.owner == owner,
                Sent::Convert(Convert { request, .. }) => request.claim.owner == owner,
                Sent::Answered(Reply::Renew(claim, ..) | Reply::Convert(claim, _)) => {
                    claim.owner == owner
                }
                _ => false,
            };
            assert!(self.sent.iter().any(is_it), "an answer that will never come");
        }
        // Two guards of this process, valid or not, may have access to one value only if both read it.
        let reads = |mode: &Mode| matches!(mode, Mode::Shared | Mode::Upgradable);
        let readers = self.holding.iter().filter(|(_, mode)| reads(mode)).count();
        let readers = readers + self.readers.len();
        let writers = self.holding.iter().filter(|(_, mode)| *mode == Mode::Exclusive).count();
        let upgrading = usize::from(self.upgrading.is_some());
        assert!(writers <= 1 && (writers == 0 || readers + upgrading == 0), "{:?}", self.holding);
    }

    /// A try waits only for an answer of the store, or for a moment in which other processes go first.
    fn check_tries(&self) {
        let soon = self.now() + Duration::from_millis(20);
        let at_rest = self.sent.is_empty()
            && !self.release_asked
            && self.machine.next.is_none_or(|next| next.at > soon);
        if at_rest && !self.failed {
            let waits = |(arrival, waiter): (&u32, &Waiter)| {
                matches!(waiter.limit, Limit::Try) && !self.woken.contains(arrival)
            };
            let upgrades = matches!(self.upgrading, Some(Upgrading { limit: Limit::Try, .. }))
                && !self.upgrade_woken;
            let none = !self.waiters.iter().any(waits) && !upgrades;
            assert!(none, "a try that waits: {:?}", self.machine);
        }
    }

    /// The first waiter waits only if a holder is in its way.
    pub(super) fn check_no_waiter_waits_for_nothing(&self) {
        let Some(Waiter { want, .. }) = self.waiters.values().next() else { return };
        let upgrading = self.upgrading.iter().map(|_| Mode::Exclusive);
        let readers = self.readers.iter().map(|_| Mode::Shared);
        let holds = self.holding.iter().map(|(_, mode)| *mode);
        let holds: Vec<_> = holds.chain(upgrading).chain(readers).collect();
        // A lease that stays stronger than its readers need takes no more readers after a while.
        let is_strong = !self.converts && !holds.is_empty();
        let in_the_way = is_strong || !want.fits_beside(holds.iter().copied(), OF - self.forgotten);
        assert!(in_the_way, "{want:?} waits beside {holds:?}:\n{:?}", self.machine);
    }
}
