//! The labels of clients: one key for each, which its client renews. No lock depends on them.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::{ClientMark, Error, Inspection, Label};

use crate::keys::Layout;
use crate::scripts::{INTRODUCE, LABELS};
use crate::topology::{Fleet, Site};
use crate::verbs;
use crate::wire::{Call, Reply};

/// How many labels one request reads.
const AT_ONCE: usize = 1000;

/// The mark of each holder and of each waiter of an inspection, where they have one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) holders: Vec<Option<ClientMark>>,
    pub(crate) waiters: Vec<Option<ClientMark>>,
}

/// Keeps the label of a client for so long.
pub(crate) async fn keep(
    (fleet, layout): (&Fleet, &Layout),
    client: ClientMark,
    label: &Label,
    keep: Duration,
) -> Result<(), Error> {
    const MOST_MILLIS: u64 = 1 << 48;
    let key = &layout.label(client);
    let keep = u64::try_from(keep.as_millis()).unwrap_or(MOST_MILLIS).clamp(1, MOST_MILLIS);
    let send = |site: Site| async move {
        let mut call = Call::new(&INTRODUCE, 1, key.len() + Label::MAX_LEN + 64);
        call.bytes(key).bytes(label.as_str().as_bytes()).number(keep);
        site.run(call).await
    };
    match fleet.route(key, send).await?.reply {
        Reply::Int(1) => Ok(()),
        _ => Err(verbs::unintelligible("introduce")),
    }
}

/// Adds the labels that the store knows to inspections. An inspection without labels is better than none, so a failure
/// leaves them out.
pub(crate) async fn add<'a>(
    (fleet, layout): (&Fleet, &Layout),
    seen: impl IntoIterator<Item = (&'a mut Inspection, &'a Marks)>,
) {
    let seen: Vec<_> = seen.into_iter().collect();
    let marks = seen.iter().flat_map(|(_, marks)| marks.holders.iter().chain(&marks.waiters));
    let mut clients: Vec<ClientMark> = marks.copied().flatten().collect();
    clients.sort_unstable();
    clients.dedup();
    let mut labels = HashMap::new();
    for clients in clients.chunks(AT_ONCE) {
        labels.extend(load(fleet, layout, clients).await.unwrap_or_default());
    }
    let of = |mark: &Option<ClientMark>| labels.get(mark.as_ref()?).cloned();
    for (inspection, marks) in seen {
        for (holder, mark) in inspection.holders.iter_mut().zip(&marks.holders) {
            holder.label = of(mark);
        }
        for (waiter, mark) in inspection.waiters.iter_mut().zip(&marks.waiters) {
            waiter.label = of(mark);
        }
    }
}

/// The labels of those of these clients that have one. One request for all of them.
async fn load(
    fleet: &Fleet,
    layout: &Layout,
    clients: &[ClientMark],
) -> Result<HashMap<ClientMark, Label>, Error> {
    let keys: Vec<_> = clients.iter().map(|client| layout.label(*client)).collect();
    let (Some(first), Ok(count)) = (keys.first(), u16::try_from(keys.len())) else {
        return Ok(HashMap::new());
    };
    let keys = &keys;
    let send = |site: Site| async move {
        let room = keys.iter().map(|key| key.len() + 16).sum();
        let mut call = Call::new(&LABELS, count, room);
        for key in keys {
            call.bytes(key);
        }
        site.run(call).await
    };
    let reply = fleet.route(first, send).await?.reply;
    let labels = read(&reply, clients.len()).ok_or_else(|| verbs::unintelligible("labels"))?;
    let known = clients.iter().copied().zip(labels);
    Ok(known.filter_map(|(client, label)| Some((client, label?))).collect())
}

/// Reads so many labels. What is no label is none: any client may have written it.
fn read(reply: &Reply, count: usize) -> Option<Vec<Option<Label>>> {
    let Reply::List(texts) = reply else { return None };
    let label = |text: &Reply| match text {
        Reply::Text(text) => {
            Some(std::str::from_utf8(text).ok().and_then(|text| Label::new(text).ok()))
        }
        _ => None,
    };
    (texts.len() == count).then(|| texts.iter().map(label).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    #[test]
    fn what_is_no_label_is_none() {
        let texts = [&b"billing"[..], b"", b"two\nlines", b"\xff", &[b'x'; 129]];
        let reply = Reply::List(texts.iter().map(|text| Reply::Text(text.to_vec())).collect());
        let labels = read(&reply, 5).unwrap();
        assert_eq!(labels[0], Label::new("billing").ok());
        assert!(labels[1..].iter().all(Option::is_none));
        assert_eq!(read(&reply, 4), None);
    }

    proptest! {
        #[test]
        fn no_reply_makes_trouble(reply in garbage::replies(), count in 0usize..3) {
            if let Some(labels) = read(&reply, count) {
                prop_assert_eq!(labels.len(), count);
            }
        }
    }
}
