//! The parties of a document: who speaks for a lease or a place, and what shows that the party lives. Pure.

use lock_core::document::{Party, StoredParty};

/// A party of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The lease of etcd that the session of the client has. 0: the client has none, so it hears nothing.
    pub(crate) session: i64,
    pub(crate) stands: Stands,
}

/// What a party stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    /// A lease of etcd of its own.
    Lease(i64),
    /// The session: a place, or a grant that its owner has not claimed yet. The client itself ends both in time.
    Session {
        /// Tells the places of one session apart.
        number: u32,
        /// When the claim came, in milliseconds since 1970 by the clock of its client. For people only.
        since: u64,
    },
}

impl Member {
    /// The lease of etcd with which the party ends.
    pub(crate) fn life(&self) -> i64 {
        match self.stands {
            Stands::Lease(lease) => lease,
            Stands::Session { .. } => self.session,
        }
    }

    /// The lease of etcd that the party has for itself.
    pub(crate) fn lease(&self) -> Option<i64> {
        match self.stands {
            Stands::Lease(lease) => Some(lease),
            Stands::Session { .. } => None,
        }
    }

    /// The number of the place that the party has. `None` if it stands on a lease of its own.
    pub(crate) fn number(&self) -> Option<u32> {
        match self.stands {
            Stands::Session { number, .. } => Some(number),
            Stands::Lease(_) => None,
        }
    }
}

impl Party for Member {
    fn is(&self, other: &Self) -> bool {
        if self.session == 0 { self == other } else { self.session == other.session }
    }
}

impl StoredParty for Member {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.session.to_be_bytes());
        match self.stands {
            Stands::Lease(lease) => {
                bytes.push(0);
                bytes.extend(lease.to_be_bytes());
            }
            Stands::Session { number, since } => {
                bytes.push(1);
                bytes.extend(number.to_be_bytes());
                bytes.extend(since.to_be_bytes());
            }
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let session = i64::from_be_bytes(take(bytes)?);
        let [kind] = take(bytes)?;
        let stands = match kind {
            0 => Stands::Lease(i64::from_be_bytes(take(bytes)?)),
            1 => Stands::Session {
                number: u32::from_be_bytes(take(bytes)?),
                since: u64::from_be_bytes(take(bytes)?),
            },
            _ => return None,
        };
        Some(Self { session, stands })
    }
}

/// Takes bytes from the front.
pub(crate) fn take<const COUNT: usize>(bytes: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back() {
        let place = Stands::Session { number: 3, since: u64::MAX };
        for stands in [Stands::Lease(i64::MIN), Stands::Lease(7), place] {
            let member = Member { session: -2, stands };
            let mut bytes = Vec::new();
            member.write(&mut bytes);
            let mut rest = [&bytes[..], b"rest"].concat();
            rest.truncate(bytes.len() + 1);
            let mut rest = rest.as_slice();
            assert_eq!(Member::read(&mut rest), Some(member));
            assert_eq!(rest, b"r");
            for cut in 0..bytes.len() {
                assert_eq!(Member::read(&mut &bytes[..cut]), None);
            }
        }
        assert_eq!(Member::read(&mut &[9; 40][..]), None);
    }

    #[test]
    fn a_session_is_one_client() {
        let member = |session, lease| Member { session, stands: Stands::Lease(lease) };
        assert!(member(1, 2).is(&member(1, 3)) && !member(1, 2).is(&member(2, 2)));
        assert!(member(0, 2).is(&member(0, 2)) && !member(0, 2).is(&member(0, 3)));
        let place = Member { session: 5, stands: Stands::Session { number: 0, since: 0 } };
        assert_eq!((place.life(), place.lease()), (5, None));
        assert_eq!((member(5, 6).life(), member(5, 6).lease()), (6, Some(6)));
    }
}
