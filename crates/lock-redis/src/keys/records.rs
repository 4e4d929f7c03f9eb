//! The keys of the records by which a server that lost its data is known.

use std::ops::Range;
use std::sync::Arc;

use super::Layout;
use crate::slot::{self, SLOTS};

/// A cluster has a record for each slot, which moves with its slot. Every other server has one record. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Records {
    /// The key of the only record.
    Server(Arc<[u8]>),
    /// The prefix of all keys.
    Slots(Arc<[u8]>),
}

impl Layout {
    /// The records of a cluster, which are those `by_slot`, or of a server.
    pub(crate) fn records(&self, by_slot: bool) -> Records {
        if by_slot {
            Records::Slots((&*self.prefix).into())
        } else {
            Records::Server((&*self.data).into())
        }
    }
}

impl Records {
    /// Whether there is a record for each slot.
    pub(crate) fn are_by_slot(&self) -> bool {
        matches!(self, Self::Slots(_))
    }

    /// The numbers of all records.
    pub(crate) fn all(&self) -> Range<u16> {
        0..if self.are_by_slot() { SLOTS } else { 1 }
    }

    /// The number of the record that says whether a lock may have been forgotten.
    pub(crate) fn number(&self, lock: &[u8]) -> u16 {
        if self.are_by_slot() { slot::slot(lock) } else { 0 }
    }

    /// The key of a record. As that of the standing, it is no lock.
    pub(crate) fn key(&self, number: u16) -> Vec<u8> {
        match self {
            Self::Server(key) => key.to_vec(),
            Self::Slots(prefix) => {
                [&**prefix, b"{", slot::text_in(number).as_bytes(), b"}:data"].concat()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{ErrorKind, Key};

    use super::*;
    use crate::keys::Keeping;

    #[test]
    fn each_record_is_in_its_slot_and_no_lock() {
        let layout = Layout::new("lock:", 3, Keeping::for_ms(1)).unwrap();
        let [one, many] = [false, true].map(|by_slot| layout.records(by_slot));
        assert_eq!((one.all().len(), one.number(b"lock:{a}")), (1, 0));
        assert_eq!(one.key(0), b"lock:data@3");
        assert_eq!((many.all().len(), many.number(b"lock:{a}")), (16_384, slot::slot(b"a")));
        for number in many.all().step_by(97) {
            let key = many.key(number);
            assert_eq!(many.number(&key), number);
            let error = layout.names(&Key::raw(&key).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidKey);
            assert_eq!(layout.lock_at(&key, false).or(layout.lock_at(&key, true)), None);
        }
    }
}
