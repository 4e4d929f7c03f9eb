//! Lists of locks: walks through the lists of nodes.

use std::sync::Arc;

use lock_core::{Cursor, Error, ErrorKind, InspectBackend, Key, List, QuorumNode, Result};

use crate::inner::Core;

/// Where a step begins: the node, the number of failed nodes before it, and the cursor in the list of the node.
#[derive(Debug, Default, PartialEq, Eq)]
struct Position {
    node: usize,
    failed: usize,
    from: Option<Cursor>,
}

/// One step of a walk: the locks that one node knows, and where the next step begins.
///
/// The walk goes through the first nodes that answer: so many nodes that every majority has one of them.
pub(super) async fn step<N: QuorumNode + InspectBackend>(
    core: &Arc<Core<N>>,
    list: &List,
) -> Result<(Vec<Key>, Option<Cursor>)> {
    let enough = core.quorum.spare() + 1;
    let mut at = Position::read(list.from.as_ref())?;
    loop {
        if at.node >= core.quorum.nodes() {
            return Err(Error::new(ErrorKind::InvalidConfig, "a cursor of another quorum's list"));
        }
        let mut asked = list.clone();
        asked.from = at.from.take();
        let mut round = core.ask([at.node].into_iter().collect(), |core, node| {
            let asked = asked.clone();
            async move { core.call(node, "list", |it| it.list(&asked)).await }
        });
        let Some((_, page)) = round.all().await.pop() else {
            at = Position { node: at.node + 1, failed: at.failed + 1, from: None };
            if at.failed >= core.quorum.needed() {
                return Err(round.failure("listed its locks", 0));
            }
            continue;
        };
        let next = match page.next {
            Some(from) => Some(Position { from: Some(from), ..at }),
            None if at.node + 1 - at.failed < enough => {
                Some(Position { node: at.node + 1, failed: at.failed, from: None })
            }
            None => None,
        };
        let keys = page.locks.into_iter().map(|lock| lock.key).collect();
        return Ok((keys, next.map(|next| next.written())));
    }
}

impl Position {
    /// `node failed `, and the cursor of the node, if there is one.
    fn written(&self) -> Cursor {
        let from = self.from.as_ref().map_or(&b""[..], Cursor::as_bytes);
        Cursor::new([format!("{} {} ", self.node, self.failed).as_bytes(), from].concat())
    }

    fn read(cursor: Option<&Cursor>) -> Result<Self> {
        let Some(cursor) = cursor else { return Ok(Self::default()) };
        let mut parts = cursor.as_bytes().splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<usize>().ok();
        let (node, failed) = (number(), number());
        let from = parts.next();
        match (node, failed, from) {
            (Some(node), Some(failed), Some(from)) if failed <= node => {
                let from = (!from.is_empty()).then(|| Cursor::new(from));
                Ok(Self { node, failed, from })
            }
            _ => Err(Error::new(ErrorKind::InvalidConfig, "a cursor of another store's list")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        for from in [None, Some(Cursor::new(&b"0 17"[..]))] {
            let at = Position { node: 2, failed: 1, from };
            assert_eq!(Position::read(Some(&at.written())).unwrap(), at);
        }
        for bad in [&b""[..], b"1", b"1 0", b"x 0 ", b"0 1 "] {
            assert!(Position::read(Some(&Cursor::new(bad))).is_err());
        }
    }
}
