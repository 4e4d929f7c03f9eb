//! The part that one request has in a call for many.

use lock_core::{Acquire, Error, Renew};

use crate::hub::Inbox;
use crate::keys::{Keeping, Names};
use crate::link::Answer;
use crate::slot::slot;
use crate::verbs::unintelligible;
use crate::wire::Script;
use crate::wire::{Call, Reply};

/// The keys and arguments of one request in a call for many.
pub(super) struct Part {
    keeping: Keeping,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

impl Part {
    /// Gives a lease a new time to live.
    pub(super) fn renew(names: &Names<'_>, request: &Renew, inbox: Option<&Inbox>) -> Self {
        let inbox = inbox.map_or(&b""[..], Inbox::id);
        let owner = request.claim.owner.expose();
        Self::new(names, 2, [owner, &digits(request.ttl.as_millis()), inbox])
    }

    /// Keeps the place of a claim in the queue.
    pub(super) fn keep(names: &Names<'_>, request: &Acquire, inbox: &Inbox) -> Self {
        let Acquire { claim, ttl, tokens, .. } = request;
        let [place, lease] = [ttl.for_place(), ttl.for_grant()].map(|ttl| digits(ttl.as_millis()));
        let count = digits(tokens.get().into());
        Self::new(names, 3, [claim.owner.expose(), &place, &lease, &count, inbox.id()])
    }

    /// A part for a lock and this many of the keys beside it.
    fn new<const N: usize>(names: &Names<'_>, beside: usize, arguments: [&[u8]; N]) -> Self {
        let mut keys = vec![names.lock().to_vec()];
        keys.extend(names.satellites().iter().take(beside).map(|pieces| pieces.concat()));
        let arguments = arguments.map(<[u8]>::to_vec).into();
        Self { keeping: names.keeping().gapless(), keys, arguments }
    }

    /// The slot of its keys in a cluster.
    pub(super) fn slot(&self) -> u16 {
        self.keys.first().map_or(0, |lock| slot(lock))
    }
}

fn digits(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// The parts as one call.
pub(super) fn call<'a>(
    script: &'static Script,
    parts: impl Iterator<Item = &'a Part> + Clone,
) -> Call {
    const ROOM_OF_EACH: usize = 8;
    let words = || parts.clone().flat_map(|part| &part.keys);
    let arguments = || parts.clone().flat_map(|part| &part.arguments);
    let room = words().chain(arguments()).map(|word| word.len() + ROOM_OF_EACH).sum();
    let mut call = Call::new(script, words().count() as u16, room);
    if let Some(first) = parts.clone().next() {
        call = call.keeping(first.keeping);
    }
    for word in words().chain(arguments()) {
        call.bytes(word);
    }
    call
}

/// One answer for each part. `None` stands for a part that the script does not decide.
pub(super) fn answers(count: usize, answer: Answer) -> Result<Vec<Option<Answer>>, Error> {
    let Answer { sent, reply } = answer;
    match reply {
        Reply::List(replies) if replies.len() == count => {
            let is_open = |reply: &Reply| matches!(reply, Reply::Text(text) if text == b"?");
            let answers = replies.into_iter();
            Ok(answers.map(|reply| (!is_open(&reply)).then_some(Answer { sent, reply })).collect())
        }
        _ => Err(unintelligible("batch")),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{ErrorKind, Instant};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    const SENT: Instant = Instant::from_nanos(5);

    fn replies() -> impl Strategy<Value = Reply> {
        let each = prop_oneof![
            4 => Just(Reply::Text(b"?".to_vec())),
            4 => Just(Reply::Text(b"q".to_vec())),
            1 => garbage::replies(),
        ];
        prop_oneof![
            3 => prop::collection::vec(each, 0..5).prop_map(Reply::List),
            1 => garbage::replies(),
        ]
    }

    proptest! {
        #[test]
        fn each_part_has_the_answer_in_its_place(reply in replies(), count in 1usize..5) {
            match answers(count, Answer { sent: SENT, reply: reply.clone() }) {
                Ok(answers) => {
                    let Reply::List(replies) = reply else { panic!("{reply:?}") };
                    prop_assert_eq!((answers.len(), replies.len()), (count, count));
                    for (answer, reply) in answers.into_iter().zip(replies) {
                        let open = reply == Reply::Text(b"?".to_vec());
                        prop_assert_eq!(answer.is_none(), open);
                        if let Some(answer) = answer {
                            prop_assert_eq!((answer.sent, answer.reply), (SENT, reply));
                        }
                    }
                }
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Protocol);
                    let fits = matches!(&reply, Reply::List(items) if items.len() == count);
                    prop_assert!(!fits, "{:?}", reply);
                }
            }
        }
    }
}
