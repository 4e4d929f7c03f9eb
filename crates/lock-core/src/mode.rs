//! How a claim holds its key, and what that means for other claims.

use crate::{Kind, OwnerToken};

/// How a claim holds its key.
///
/// The methods are the algebra of modes: they alone say which leases may be held at once, and which lease is
/// enough for which hold. They are pure, and every part of this family uses them.
///
/// | held, wanted | exclusive | upgradable | shared | permits | joint |
/// | --- | --- | --- | --- | --- | --- |
/// | exclusive | covers | covers | covers | | |
/// | upgradable | | covers | covers, fits | | |
/// | shared | | fits | covers, fits | | |
/// | permits | | | | covers as many or fewer; fits while the sum does | |
/// | joint | | | | | covers and fits in one group |
///
/// *Covers* is [`covers`](Self::covers): a lease in the first mode is enough for a hold in the second. *Fits* is
/// [`compatible_with`](Self::compatible_with): two owners may hold leases in these modes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder and no other.
    Exclusive,
    /// Any number of holders, at most one of them [`Upgradable`](Self::Upgradable), and no exclusive
    /// one.
    Shared,
    /// As [`Shared`](Self::Shared), but this lease may become exclusive without being released.
    Upgradable,
    /// `take` of the `of` permits that the key has in all.
    Permits {
        /// The number of permits that this lease takes. A request for more permits than there are waits.
        take: u32,
        /// The number of permits that the key was declared to have: one number in all requests for the key.
        /// The number may be zero, if the app [adds](crate::PermitBackend::resize) permits later.
        of: u32,
    },
    /// Together with all other holders that name this group, as one holder, and with no other holder.
    Joint {
        /// The secret that makes its holders one.
        group: OwnerToken,
    },
}

impl Mode {
    /// Whether two owners may hold leases in these modes on one key at once.
    ///
    /// The relation is symmetric. Two modes that count permits are always compatible here; whether there are
    /// enough permits is a question about all leases of the key, which [`fits_beside`](Self::fits_beside) answers.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Mode;
    ///
    /// assert!(Mode::Shared.compatible_with(Mode::Upgradable));
    /// assert!(!Mode::Upgradable.compatible_with(Mode::Upgradable));
    /// assert!(!Mode::Exclusive.compatible_with(Mode::Shared));
    /// ```
    #[must_use]
    pub fn compatible_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shared, Self::Shared | Self::Upgradable)
            | (Self::Upgradable, Self::Shared)
            | (Self::Permits { .. }, Self::Permits { .. }) => true,
            (Self::Joint { group: one }, Self::Joint { group: other }) => one == other,
            _ => false,
        }
    }

    /// Whether one more owner may hold a lease in this mode beside the leases in the modes `held`, on a key that
    /// has `limit` permits if it is a semaphore.
    ///
    /// The limit is the number of permits that the store knows. This number may differ from the number that the modes
    /// declare, because permits are [added and removed](crate::PermitBackend::resize).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Mode;
    ///
    /// let two = Mode::Permits { take: 2, of: 5 };
    /// assert!(two.fits_beside([two], 5));
    /// assert!(!two.fits_beside([two, two], 5));
    /// assert!(!two.fits_beside([Mode::Shared], 5));
    /// assert!(Mode::Exclusive.fits_beside([], 0));
    /// ```
    #[must_use]
    pub fn fits_beside(self, held: impl IntoIterator<Item = Self>, limit: u32) -> bool {
        let mut used = u64::from(self.permits());
        let is_compatible = held.into_iter().all(|other| {
            used += u64::from(other.permits());
            self.compatible_with(other)
        });
        is_compatible && (!self.counts() || used <= u64::from(limit))
    }

    /// Whether a lease in this mode is enough for a hold in the mode `wanted`.
    ///
    /// The relation is a partial order. If one mode covers another, every mode that is compatible with the first
    /// is compatible with the second.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Mode;
    ///
    /// assert!(Mode::Exclusive.covers(Mode::Upgradable));
    /// assert!(Mode::Upgradable.covers(Mode::Shared));
    /// assert!(!Mode::Shared.covers(Mode::Upgradable));
    ///
    /// let permits = |take, of| Mode::Permits { take, of };
    /// assert!(permits(3, 5).covers(permits(2, 5)));
    /// assert!(!permits(3, 5).covers(permits(2, 6)), "that is another semaphore");
    /// ```
    #[must_use]
    pub fn covers(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Self::Exclusive, Self::Exclusive | Self::Upgradable | Self::Shared)
            | (Self::Upgradable, Self::Upgradable | Self::Shared)
            | (Self::Shared, Self::Shared) => true,
            (Self::Permits { take: all, of: known }, Self::Permits { take, of }) => {
                known == of && take <= all
            }
            (Self::Joint { group: ours }, Self::Joint { group }) => ours == group,
            _ => false,
        }
    }

    /// Whether this mode covers the other mode and differs from it: the strict order that belongs to
    /// [`covers`](Self::covers).
    ///
    /// A lease can be [converted](crate::ConvertBackend) at once to any weaker mode, except to zero permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Mode;
    ///
    /// assert!(Mode::Exclusive.is_stronger_than(Mode::Shared));
    /// assert!(!Mode::Shared.is_stronger_than(Mode::Shared));
    /// ```
    #[must_use]
    pub fn is_stronger_than(self, other: Self) -> bool {
        self != other && self.covers(other)
    }

    /// Whether the mode counts permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Mode;
    ///
    /// assert!(Mode::Permits { take: 1, of: 1 }.counts());
    /// assert!(!Mode::Exclusive.counts());
    /// ```
    #[must_use]
    pub fn counts(self) -> bool {
        matches!(self, Self::Permits { .. })
    }

    /// How many permits a lease in this mode takes: zero unless the mode [counts](Self::counts).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Mode;
    ///
    /// assert_eq!(Mode::Permits { take: 2, of: 5 }.permits(), 2);
    /// assert_eq!(Mode::Shared.permits(), 0);
    /// ```
    #[must_use]
    pub fn permits(self) -> u32 {
        match self {
            Self::Permits { take, .. } => take,
            _ => 0,
        }
    }

    /// Whether the mode is [`Joint`](Self::Joint).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Mode, OwnerToken};
    ///
    /// assert!(Mode::Joint { group: OwnerToken::from_bytes([7; 16]) }.is_joint());
    /// assert!(!Mode::Shared.is_joint());
    /// ```
    #[must_use]
    pub fn is_joint(self) -> bool {
        matches!(self, Self::Joint { .. })
    }

    /// The mode without its secrets.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Kind, Mode, OwnerToken};
    ///
    /// assert_eq!(Mode::Joint { group: OwnerToken::from_bytes([7; 16]) }.kind(), Kind::Joint);
    /// ```
    pub fn kind(&self) -> Kind {
        match *self {
            Self::Exclusive => Kind::Exclusive,
            Self::Shared => Kind::Shared,
            Self::Upgradable => Kind::Upgradable,
            Self::Permits { take, .. } => Kind::Permits(take),
            Self::Joint { .. } => Kind::Joint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mode for each difference that the algebra can see, and a few more.
    fn modes() -> Vec<Mode> {
        let joint = |byte| Mode::Joint { group: OwnerToken::from_bytes([byte; 16]) };
        let permits = (0..=4).flat_map(|take| (0..=4).map(move |of| Mode::Permits { take, of }));
        let plain = [Mode::Exclusive, Mode::Upgradable, Mode::Shared];
        plain.into_iter().chain(permits).chain([joint(1), joint(2)]).collect()
    }

    fn pairs() -> impl Iterator<Item = (Mode, Mode)> {
        modes().into_iter().flat_map(|one| modes().into_iter().map(move |other| (one, other)))
    }

    fn triples() -> impl Iterator<Item = (Mode, Mode, Mode)> {
        pairs().flat_map(|(one, other)| modes().into_iter().map(move |third| (one, other, third)))
    }

    #[test]
    fn compatibility_is_symmetric() {
        for (one, other) in pairs() {
            assert_eq!(one.compatible_with(other), other.compatible_with(one), "{one:?} {other:?}");
        }
    }

    #[test]
    fn to_cover_is_a_partial_order() {
        for mode in modes() {
            assert!(mode.covers(mode), "{mode:?}");
        }
        for (one, other) in pairs().filter(|(one, other)| one != other) {
            assert!(!(one.covers(other) && other.covers(one)), "{one:?} {other:?}");
            assert_eq!(one.is_stronger_than(other), one.covers(other), "{one:?} {other:?}");
        }
        for (one, other, third) in triples() {
            let chain = one.covers(other) && other.covers(third);
            assert!(!chain || one.covers(third), "{one:?} {other:?} {third:?}");
        }
    }

    #[test]
    fn what_fits_beside_a_lease_fits_beside_a_weaker_one() {
        for (strong, weak, third) in triples().filter(|(strong, weak, _)| strong.covers(*weak)) {
            let story = format!("{strong:?} covers {weak:?}, beside {third:?}");
            assert!(!third.compatible_with(strong) || third.compatible_with(weak), "{story}");
            for limit in 0..=6 {
                let before = third.fits_beside([strong], limit);
                assert!(!before || third.fits_beside([weak], limit), "{story} of {limit}");
                let stronger = strong.fits_beside([third], limit);
                assert!(!stronger || weak.fits_beside([third], limit), "{story} of {limit}");
            }
        }
    }

    #[test]
    fn a_lease_alone_fits_unless_it_takes_more_than_there_are() {
        for mode in modes() {
            for limit in 0..=4 {
                let fits = !mode.counts() || mode.permits() <= limit;
                assert_eq!(mode.fits_beside([], limit), fits, "{mode:?} of {limit}");
            }
        }
    }

    #[test]
    fn leases_fit_in_any_order() {
        for (one, other, third) in triples() {
            for limit in [0, 1, 3, 5, 12] {
                let fits = one.fits_beside([other, third], limit);
                assert_eq!(fits, one.fits_beside([third, other], limit));
                // One more lease never makes more room.
                assert!(!fits || one.fits_beside([other], limit), "{one:?} {other:?} {third:?}");
            }
        }
    }

    #[test]
    fn permits_fit_while_their_sum_does() {
        let permits = |take| Mode::Permits { take, of: 9 };
        for (first, second, third) in
            (0..5).flat_map(|a| (0..5).flat_map(move |b| (0..5).map(move |c| (a, b, c))))
        {
            for limit in 0..=12 {
                let fits = permits(first).fits_beside([permits(second), permits(third)], limit);
                assert_eq!(fits, first + second + third <= limit);
            }
        }
        let all = permits(u32::MAX);
        assert!(!all.fits_beside([all, all], u32::MAX), "the sum does not overflow");
    }

    #[test]
    fn a_group_is_one_holder() {
        for (one, other) in pairs().filter(|(one, _)| one.is_joint()) {
            assert_eq!(one.compatible_with(other), one == other);
            assert_eq!(one.covers(other), one == other);
            assert_eq!(other.covers(one), one == other);
        }
    }

    #[test]
    fn only_permits_take_permits() {
        for mode in modes() {
            assert!(mode.counts() || mode.permits() == 0);
            assert_eq!(mode.counts(), matches!(mode.kind(), Kind::Permits(_)));
        }
    }
}
