//! Whether answers come from the store of the answers before. Pure.

use super::messages::Header;

/// The data of a store, as its answers show them.
#[derive(Debug, Default)]
pub(super) struct Era {
    cluster: u64,
    /// The highest revision that was seen.
    revision: i64,
}

impl Era {
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// An answer has come to a request that was sent when this revision had been seen. Returns whether the store is
    /// another one, or was restored: in one store, no answer is older than what was seen before its request.
    pub(super) fn see(&mut self, sent_at: i64, header: &Header) -> bool {
        let is_new = header.revision < sent_at
            || (self.cluster != header.cluster && self.cluster != 0 && header.cluster != 0);
        if is_new {
            *self = Self { cluster: header.cluster, revision: header.revision };
        } else {
            self.cluster = header.cluster;
            self.revision = self.revision.max(header.revision);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cluster: u64, revision: i64) -> Header {
        Header { cluster, revision, term: 0 }
    }

    #[test]
    fn a_store_that_falls_back_is_another_one() {
        let mut era = Era::default();
        assert!(!era.see(0, &header(1, 5)));
        assert!(!era.see(5, &header(1, 9)));
        // Two answers may come in another order than their requests.
        assert!(!era.see(5, &header(1, 8)));
        assert_eq!(era.revision(), 9);
        assert!(era.see(9, &header(1, 8)));
        assert_eq!(era.revision(), 8);
        assert!(!era.see(8, &header(1, 8)));
    }

    #[test]
    fn another_cluster_is_another_store() {
        let mut era = Era::default();
        assert!(!era.see(0, &header(1, 5)));
        assert!(era.see(5, &header(2, 50)));
        assert!(!era.see(50, &header(2, 51)));
    }
}
