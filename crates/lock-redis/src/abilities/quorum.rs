//! One vote among several.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Acquire, Ballot, Claim, Error, ErrorKind, FencingToken, Mode, OwnerTag, OwnerToken, Quarantine,
    QuorumNode, Server, Standing, Ttl, Vote,
};

use crate::hub::{Inbox, number};
use crate::keys::Names;
use crate::link::Answer;
use crate::modes::Code;
use crate::scripts::{CONFIRM, QUICK_VOTE, STANDING, VOTE, VOUCH};
use crate::wire::{Call, Reply, Script};
use crate::{RedisBackend, state, verbs};

/// How long an owner's token is, and that of a group.
const SECRET: usize = 32;

/// What the server knows of having forgotten is in one key, `lock:node@0`: see the
/// [crate docs](crate#as-a-node-of-a-quorum).
///
/// Guarded ballots, [`standing`](Self::standing) and [`vouch`](Self::vouch) need the right to `INFO`, and a
/// server that is not part of a cluster.
#[async_trait]
impl QuorumNode for RedisBackend {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote, Error> {
        check(ballot)?;
        let names = self.layout().names(&ballot.request.claim.key)?;
        let node = ballot.guarded.then(|| self.layout().node());
        let claim = &ballot.request.claim;
        if claim.mode == Mode::Exclusive && !self.hub().watches(&names) {
            let answer = self.link().run(quick_vote(&names, node, ballot)).await?;
            if answer.reply != Reply::Text(b"?".to_vec()) {
                return voted(ballot, None, &answer).ok_or_else(|| verbs::unintelligible("vote"));
            }
        }
        let inbox = self.hub().inbox_for(&names);
        let call = vote(&names, node, ballot, inbox.as_ref())?;
        let answer = self.link().run(call).await?;
        voted(ballot, Some(inbox.is_some()), &answer).ok_or_else(|| verbs::unintelligible("vote"))
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool, Error> {
        /// As many as a double counts one by one.
        const HIGHEST_TOKEN: u64 = (1 << 53) - 1;
        if token.get() > HIGHEST_TOKEN {
            let message = format!("a token of {token} is too high: {HIGHEST_TOKEN} at most");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let names = self.layout().names(&claim.key)?;
        let mode = Code::of(claim.mode)?;
        let mut call = match claim.mode {
            Mode::Exclusive => {
                verbs::on_state(&CONFIRM, &names, 2 * SECRET).keeping(names.keeping())
            }
            _ => verbs::on_keys(&CONFIRM, &names, None, 2 * SECRET),
        };
        call.bytes(claim.owner.expose()).number(token.get()).text(mode);
        let reply = self.link().run(call).await?.reply;
        yes_or_no(&reply).ok_or_else(|| verbs::unintelligible("confirm"))
    }

    async fn standing(&self) -> Result<Standing, Error> {
        let seed = OwnerToken::generate()?;
        let mut call = on_node(&STANDING, self.layout().node());
        call.bytes(seed.expose());
        let reply = self.link().run(call).await?.reply;
        stands(&reply).ok_or_else(|| verbs::unintelligible("tell the standing"))
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error> {
        let mut call = on_node(&VOUCH, self.layout().node());
        call.bytes(quarantine.as_str().as_bytes()).number(max_ttl.as_millis());
        let reply = self.link().run(call).await?.reply;
        yes_or_no(&reply).ok_or_else(|| verbs::unintelligible("vouch"))
    }
}

/// Refuses what cannot be voted on.
fn check(ballot: &Ballot) -> Result<(), Error> {
    if ballot.request.claim.mode.counts() {
        let message = "permits are not voted on: majorities that overlap can give out too many";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// A ballot, for a server that tells its standing in the key `node` if it must not vote while it is kept
/// out.
fn vote(
    names: &Names<'_>,
    node: Option<&[u8]>,
    ballot: &Ballot,
    inbox: Option<&Inbox>,
) -> Result<Call, Error> {
    let Ballot { request, floor, .. } = ballot;
    let (mode, inbox) = (Code::of(request.claim.mode)?, inbox.map_or(&b""[..], Inbox::id));
    let node = node.map(|node| [node, b""]);
    let mut call = verbs::on_keys(&VOTE, names, node, 4 * SECRET);
    call.bytes(request.claim.owner.expose())
        .number(request.ttl.as_millis())
        .text(format_args!("{} {floor}", request.tokens))
        .bytes(inbox)
        .text(mode);
    Ok(call)
}

/// A ballot for a lock that is free, to be held alone.
fn quick_vote(names: &Names<'_>, node: Option<&[u8]>, ballot: &Ballot) -> Call {
    let Ballot { request: Acquire { claim, ttl, .. }, floor, .. } = ballot;
    let (clock, below) = state::clock_of(*floor);
    // It may be ahead of the server's clock by a second.
    let keep = ttl.as_millis() + names.retention() + 2_000;
    let mut call = verbs::on_state_and(&QUICK_VOTE, names, node, 2 * SECRET);
    call.bytes(claim.owner.expose())
        .number(ttl.as_millis())
        .number(keep)
        .text(format_args!("{clock:016}"))
        .pieces([below, verbs::named(&claim.owner)]);
    call
}

/// What the reply to [`vote`] means to a client that hears of claims that join the queue, or does not; or the
/// reply to [`quick_vote`], which tells the tokens in another way.
fn voted(ballot: &Ballot, hears: Option<bool>, answer: &Answer) -> Option<Vote> {
    let Reply::Text(text) = &answer.reply else { return None };
    if let Some(quarantine) = text.strip_prefix(b"a ") {
        return Some(Vote::Abstains(Quarantine::new(std::str::from_utf8(quarantine).ok()?)));
    }
    let Some(refusal) = text.strip_prefix(b"b ") else {
        let Acquire { ttl, tokens, .. } = &ballot.request;
        let grant = match hears {
            Some(hears) => verbs::granted(text, *ttl, hears, answer.sent),
            None => verbs::voted_quickly(text, tokens.get(), *ttl, answer),
        };
        return grant.map(Vote::Granted);
    };
    let refusal = std::str::from_utf8(refusal).ok()?;
    let (left, holder) = match refusal.split_once(' ') {
        None => (refusal, None),
        Some((left, digits)) => (left, Some(tag(digits)?)),
    };
    Some(Vote::Busy { holder, retry_after: verbs::remaining(verbs::time_left(left)?) })
}

/// Reads eight hexadecimal digits.
fn tag(digits: &str) -> Option<OwnerTag> {
    let is_tag = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_tag.then(|| u32::from_str_radix(digits, 16).ok().map(OwnerTag::new)).flatten()
}

fn on_node(script: &'static Script, node: &[u8]) -> Call {
    const NUMBERS: usize = 64;
    let mut call = Call::new(script, 1, node.len() + SECRET + NUMBERS);
    call.bytes(node);
    call
}

/// Reads `run quarantine most`.
fn stands(reply: &Reply) -> Option<Standing> {
    let Reply::Text(text) = reply else { return None };
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    let (run, quarantine, most) = (words.next()?, words.next()?, words.next()?);
    let max_ttl = match most {
        "-" => None,
        most => Some(Ttl::new(Duration::from_millis(number(most.as_bytes())?)).ok()?),
    };
    // What follows tells how the server came to its data, which is another thing than the server.
    let server = run.split('+').next().filter(|run| !run.is_empty())?;
    let standing = Standing::new(Server::new(server), Quarantine::new(quarantine), max_ttl);
    words.next().is_none().then_some(standing)
}

fn yes_or_no(reply: &Reply) -> Option<bool> {
    match reply {
        Reply::Int(number @ (0 | 1)) => Some(*number == 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{Instant, Key};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage::{self, is_left};

    const TTL: Ttl = Ttl::DEFAULT;

    fn read(text: &str) -> Option<Vote> {
        let claim = Claim::exclusive(Key::new("a").ok()?, OwnerToken::from_bytes([7; 16]));
        let ballot = Ballot::new(Acquire::new(claim, TTL), FencingToken::new(9));
        let reply = Reply::Text(text.into());
        voted(&ballot, Some(false), &Answer { sent: Instant::from_nanos(5), reply })
    }

    fn standing(text: &str) -> Option<Standing> {
        stands(&Reply::Text(text.into()))
    }

    #[test]
    fn every_answer_to_a_ballot_is_read() {
        let Some(Vote::Granted(grant)) = read("7 9") else { panic!() };
        assert_eq!((grant.tokens.first().get(), grant.tokens.last().get()), (7, 9));
        assert_eq!(grant.valid_until, TTL.valid_until(Instant::from_nanos(5)));
        let busy = |holder: Option<u32>, left: Option<u64>| {
            let (holder, retry_after) =
                (holder.map(OwnerTag::new), left.map(Duration::from_millis));
            Some(Vote::Busy { holder, retry_after })
        };
        assert_eq!(read("b 20 0001feff"), busy(Some(0x0001_feff), Some(20)));
        assert_eq!(read("b -1"), busy(None, None));
        assert_eq!(read("a 0ff"), Some(Vote::Abstains(Quarantine::new("0ff"))));
    }

    #[test]
    fn a_standing_is_read() {
        let (server, quarantine) = (Server::new("a1"), Quarantine::new("b2"));
        let out = Standing::new(server.clone(), quarantine.clone(), None);
        assert_eq!(standing("a1 b2 -"), Some(out));
        let back = Standing::new(server, quarantine, Some(TTL));
        assert_eq!(standing("a1+c3 b2 30000"), Some(back));
    }

    #[test]
    fn nonsense_is_no_answer() {
        for text in
            ["", "b", "b ", "b x", "b -2", "b 1 x", "b 1 2 3", "b 1 +001feff", "7", "7 6", "c 7"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        for text in ["", "a", "a b", "a b c", "a b 0", "a b 30000 c", "+a b -", "a b -1"] {
            assert_eq!(standing(text), None, "{text}");
        }
        assert_eq!(yes_or_no(&Reply::Int(2)), None);
    }

    /// Eight hexadecimal digits, as many as a tag has.
    fn is_tag(word: &str) -> bool {
        word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    fn votes() -> impl Strategy<Value = Vec<u8>> {
        let said =
            |stem: &'static [u8]| garbage::texts().prop_map(move |text| [stem, &text].concat());
        let tagged = ("[ab] -?[0-9]{1,20}", "( [+-]?[0-9a-fg]{6,9})?")
            .prop_map(|(stem, tag)| (stem + &tag).into_bytes());
        prop_oneof![said(b""), said(b"b "), said(b"a "), tagged]
    }

    proptest! {
        #[test]
        fn a_vote_is_read_to_the_letter_or_not_at_all(text in votes()) {
            let claim = Claim::exclusive(Key::new("a").unwrap(), OwnerToken::from_bytes([7; 16]));
            let ballot = Ballot::new(Acquire::new(claim, TTL), FencingToken::new(9));
            let sent = Instant::from_nanos(5);
            let answer = Answer { sent, reply: Reply::Text(text.clone()) };
            let words = std::str::from_utf8(&text).map(|text| text.split(' ').collect::<Vec<_>>());
            match voted(&ballot, Some(false), &answer) {
                Some(Vote::Granted(grant)) => {
                    prop_assert_eq!(Some(grant), verbs::granted(&text, ballot.request.ttl, false, sent));
                }
                Some(Vote::Busy { .. }) => {
                    let is_refusal = match words.as_deref() {
                        Ok(["b", left]) => is_left(left),
                        Ok(["b", left, tag]) => is_left(left) && is_tag(tag),
                        _ => false,
                    };
                    prop_assert!(is_refusal, "{}", text.escape_ascii());
                }
                Some(Vote::Abstains(quarantine)) => {
                    let said = [b"a ", quarantine.as_str().as_bytes()].concat();
                    prop_assert_eq!(said, text);
                }
                Some(other) => prop_assert!(false, "{:?}", other),
                None => {}
            }
        }

        #[test]
        fn no_other_reply_is_a_vote_or_a_standing(reply in garbage::replies()) {
            if let Some(found) = stands(&reply) {
                let Reply::Text(text) = &reply else { panic!("{reply:?}") };
                let words: Vec<_> = text.split(|byte| *byte == b' ').collect();
                prop_assert_eq!(words.len(), 3);
                prop_assert!(words[0].starts_with(found.server.as_str().as_bytes()));
            }
            let said = yes_or_no(&reply);
            prop_assert_eq!(said, match reply { Reply::Int(0) => Some(false), Reply::Int(1) => Some(true), _ => None });
        }
    }
}
