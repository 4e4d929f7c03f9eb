//! Subscriptions that the server ends.
//!
//! A server ends the subscription to a channel of a slot when it loses the slot. It pushes a message of the kind that
//! also answers a request for that end. The `redis` crate takes each push of this kind for the answer to the oldest
//! request under way, so every later request would get the answer to another one. This client never asks for that end:
//! each push of this kind is news. Under another name the crate hands it on as news.

/// The kind, as the server names it.
const SAID: &[u8; 12] = b"sunsubscribe";

/// The kind, as the crate hands it on. Only the last letter differs: the others may have been read before.
pub(super) const ENDED: &str = "sunsubscribE";

/// What is known of the kind of the push that is being read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Kind {
    /// No kind that matters is being read, and none comes next.
    #[default]
    Other,
    /// The next value is the kind of a push.
    Next,
    /// The present text is a kind, whose first bytes, so many, are those of the one that matters.
    Said(usize),
}

impl Kind {
    /// Notes the line with which a value begins, inside of another value or not.
    pub(super) fn begin(&mut self, line: &[u8], is_inside: bool) {
        *self = match (&*self, line) {
            (Self::Next, b"$12\r\n") if is_inside => Self::Said(0),
            (_, [b'>', ..]) if !is_inside => Self::Next,
            _ => Self::Other,
        };
    }

    /// Renames the kind that matters, of whose text these bytes come next.
    pub(super) fn rename(&mut self, bytes: &mut [u8]) {
        let Self::Said(before) = *self else { return };
        let count = bytes.len().min(SAID.len() - before);
        let said = before + count;
        if bytes[..count] != SAID[before..said] {
            *self = Self::Other;
        } else if said < SAID.len() {
            *self = Self::Said(said);
        } else {
            *self = Self::Other;
            bytes[count - 1] = ENDED.as_bytes()[said - 1];
        }
    }
}
