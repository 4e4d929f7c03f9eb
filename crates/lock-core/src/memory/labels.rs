//! The labels of clients.

use std::collections::HashMap;
use std::time::Duration;

use crate::{ClientMark, Instant, Label, OwnerToken};

/// The labels that clients have told, each until its time is over.
#[derive(Debug, Default)]
pub(super) struct Labels(HashMap<ClientMark, (Label, Instant)>);

impl Labels {
    pub(super) fn keep(&mut self, client: ClientMark, label: Label, keep: Duration, now: Instant) {
        self.0.retain(|_, (_, ends)| *ends > now);
        self.0.insert(client, (label, now + keep));
    }

    /// The label of the client of this owner.
    pub(super) fn of(&self, owner: &OwnerToken, now: Instant) -> Option<Label> {
        let (label, ends) = self.0.get(&owner.client())?;
        (*ends > now).then(|| label.clone())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
