//! One vote of several.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Acquire, Backend, Ballot, Claim, Clock, Ending, Error, ErrorKind, FencingToken, Membership,
    Mode, OwnerTag, OwnerToken, Quarantine, QuorumNode, Server, Standing, Terms, Ttl, Vote,
};

use crate::hub::{Inbox, number};
use crate::keys::Names;
use crate::link::{Answer, Live};
use crate::modes::Code;
use crate::scripts::{CONFIRM, QUICK_VOTE, STANDING, VOTE, VOUCH};
use crate::topology::Site;
use crate::wire::{Call, Failure, Reply, Script};
use crate::{RedisBackend, state, verbs};

/// The length of an owner token, and of the secret of a group.
const SECRET: usize = 32;

/// The server records what it knows of lost leases in one key, `lock:node@0`: see the [crate
/// docs](crate#as-a-node-of-a-quorum).
///
/// [`standing`](Self::standing), [`vouch`](Self::vouch) and ballots that expect a standing need the right to `INFO`,
/// and a server that is not part of a cluster.
#[async_trait]
impl QuorumNode for RedisBackend {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote, Error> {
        check(ballot)?;
        let names = &self.layout().names(&ballot.request.claim.key)?;
        let (node, clock) = (self.layout().node(), self.clock());
        let vote = |site: Site| async move {
            Poll { site: &site, names, node, ballot, clock }.vote().await
        };
        self.route(names, vote).await
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool, Error> {
        /// The largest integer up to which a double counts one by one.
        const HIGHEST_TOKEN: u64 = (1 << 53) - 1;
        if token.get() > HIGHEST_TOKEN {
            let message = format!("a token of {token} is too high: {HIGHEST_TOKEN} at most");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let names = self.layout().names(&claim.key)?;
        let mode = Code::of(claim.mode)?;
        let call = || {
            let mut call = match claim.mode {
                Mode::Exclusive => verbs::on_state(&CONFIRM, &names, 2 * SECRET),
                _ => verbs::on_keys(&CONFIRM, &names, None, 2 * SECRET),
            };
            call.bytes(claim.owner.expose()).number(token.get()).text(mode);
            call.keeping(names.keeping().termless())
        };
        let reply = self.run(&names, call).await?.reply;
        yes_or_no(&reply).ok_or_else(|| verbs::unintelligible("confirm"))
    }

    async fn standing(&self, terms: &Terms) -> Result<Standing, Error> {
        self.stand(terms, "").await
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error> {
        let node = self.layout().node();
        let vouch = |site: Site| async move {
            let mut call = on_node(&VOUCH, node);
            call.bytes(quarantine.as_str().as_bytes()).number(max_ttl.as_millis());
            site.run(call).await
        };
        let reply = self.fleet().route(node, vouch).await?.reply;
        yes_or_no(&reply).ok_or_else(|| verbs::unintelligible("vouch"))
    }

    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing, Error> {
        self.stand(terms, from.as_str()).await
    }

    async fn admit(&self, terms: &Terms) -> Result<Standing, Error> {
        self.stand(terms, "*").await
    }
}

/// How the script that votes looks at the server.
#[derive(Clone, Copy)]
enum Look {
    /// It compares the record with the expected one.
    Record,
    /// It also looks whether this run of the server made the record.
    Full,
}

/// A request for the vote of one server.
struct Poll<'a> {
    site: &'a Site,
    names: &'a Names<'a>,
    /// The record of the server.
    node: &'a [u8],
    ballot: &'a Ballot,
    clock: Clock,
}

impl Poll<'_> {
    async fn vote(&self) -> Result<Vote, Failure> {
        let Some(standing) = &self.ballot.expects else { return self.vote_on(None).await };
        if !standing.votes_for(self.ballot.request.ttl)? {
            return Ok(Vote::Abstains);
        }
        let live = self.site.link().connected().await?;
        let (record, checks) = (&*standing.record, live.checks());
        let sent = self.clock.now();
        let look = if checks.is_due(record, sent) { Look::Full } else { Look::Record };
        let vote = self.vote_on(Some((&live, look))).await?;
        match (&vote, look) {
            (Vote::Abstains, _) => checks.failed(),
            (_, Look::Full) => checks.passed(record, sent),
            (Vote::Granted(_), Look::Record) if !checks.covers(record, self.clock.now()) => {
                return self.vote_again(&live, standing, vote).await;
            }
            _ => {}
        }
        Ok(vote)
    }

    /// Asks for a vote, on a connection that leads to one server if the ballot expects a standing.
    async fn vote_on(&self, live: Option<(&Live, Look)>) -> Result<Vote, Failure> {
        let Self { site, names, ballot, .. } = *self;
        let node = live.map(|_| self.node);
        let run = |call| async move {
            match live {
                Some((live, look)) => live.run(expecting(call, ballot, look)).await,
                None => site.run(call).await,
            }
        };
        let unintelligible = || Failure::from(verbs::unintelligible("vote"));
        let inbox = site.hub().inbox_for(names);
        if ballot.request.claim.mode == Mode::Exclusive {
            let answer = run(quick_vote(names, node, ballot, inbox.as_ref())).await?;
            if answer.reply != Reply::Text(b"?".to_vec()) {
                return voted(ballot, None, &answer).ok_or_else(unintelligible);
            }
        }
        let answer = run(vote(names, node, ballot, inbox.as_ref())?).await?;
        voted(ballot, Some(inbox.is_some()), &answer).ok_or_else(unintelligible)
    }

    /// Looks at the server in full after a vote that took too long. A repeated ballot brings its first vote again.
    async fn vote_again(
        &self,
        live: &Live,
        standing: &Standing,
        vote: Vote,
    ) -> Result<Vote, Failure> {
        let sent = self.clock.now();
        match self.vote_on(Some((live, Look::Full))).await? {
            Vote::Granted(_) => {
                live.checks().passed(&standing.record, sent);
                Ok(vote)
            }
            Vote::Abstains => {
                // The server may hold the lease even so, so the ballot has to be released.
                live.checks().failed();
                let message = "the standing of the server has changed since it voted";
                Err(Error::new(ErrorKind::NotReady, message).into())
            }
            again => Ok(again),
        }
    }
}

impl RedisBackend {
    async fn stand(&self, terms: &Terms, change: &str) -> Result<Standing, Error> {
        let (seed, node) = (&OwnerToken::generate()?, self.layout().node());
        let ask = |site: Site| async move {
            let ending = match terms.ending {
                Ending::ByClock => b"c",
                Ending::Never => b"n",
                _ => b"l",
            };
            let mut call = on_node(&STANDING, node);
            call.bytes(seed.expose())
                .bytes(terms.membership.as_str().as_bytes())
                .number(terms.max_ttl.as_millis())
                .bytes(ending)
                .bytes(change.as_bytes());
            let live = site.link().connected().await?;
            let answer = live.run(call).await?;
            let standing = stands(&answer.reply);
            let standing = standing.ok_or_else(|| verbs::unintelligible("tell the standing"))?;
            live.checks().passed(&standing.record, answer.sent);
            Ok(standing)
        };
        self.fleet().route(node, ask).await
    }
}

/// Refuses modes that have no votes.
fn check(ballot: &Ballot) -> Result<(), Error> {
    if ballot.request.claim.mode.counts() {
        let message = "permits are not voted on: majorities that overlap can give out too many";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// A ballot. If the server must not vote during a quarantine, it has its standing in the key `node`.
fn vote(
    names: &Names<'_>,
    node: Option<&[u8]>,
    ballot: &Ballot,
    inbox: Option<&Inbox>,
) -> Result<Call, Error> {
    let Ballot { request, floor, .. } = ballot;
    let (mode, inbox) = (Code::of(request.claim.mode)?, inbox.map_or(&b""[..], Inbox::id));
    let node = node.map(|node| [node, b""]);
    let room = 4 * SECRET + room(ballot);
    let mut call = verbs::on_keys(&VOTE, names, node, room).keeping(names.keeping().termless());
    call.bytes(request.claim.owner.expose())
        .number(request.ttl.as_millis())
        .text(format_args!("{} {floor}", request.tokens))
        .bytes(inbox)
        .text(mode);
    Ok(call)
}

/// A ballot for an exclusive lease on a free lock that no claim waits for.
fn quick_vote(
    names: &Names<'_>,
    node: Option<&[u8]>,
    ballot: &Ballot,
    inbox: Option<&Inbox>,
) -> Call {
    let Ballot { request: Acquire { claim, ttl, .. }, floor, .. } = ballot;
    let (clock, below) = state::clock_of(*floor);
    // It may be ahead of the server's clock by a second.
    let keep = ttl.as_millis() + names.retention() + 2_000;
    let mut call = verbs::on_state_and_queue(&QUICK_VOTE, names, node, 2 * SECRET + room(ballot));
    call.bytes(claim.owner.expose())
        .number(ttl.as_millis())
        .number(keep)
        .text(format_args!("{clock:016}"));
    match inbox {
        Some(inbox) => call.pieces([below, verbs::named(&claim.owner), b" i", inbox.id()]),
        None => call.pieces([below, verbs::named(&claim.owner)]),
    };
    call
}

/// The meaning of the reply to [`vote`], for a client that hears of claims that join the queue or for one
/// that does not; or of the reply to [`quick_vote`], which gives the tokens in another form.
fn voted(ballot: &Ballot, hears: Option<bool>, answer: &Answer) -> Option<Vote> {
    let Reply::Text(text) = &answer.reply else { return None };
    if text == b"a" {
        return Some(Vote::Abstains);
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

fn room(ballot: &Ballot) -> usize {
    ballot.expects.as_ref().map_or(0, |standing| standing.record.len() + 16)
}

/// Adds the record that the ballot expects, and how to look at the server.
fn expecting(mut call: Call, ballot: &Ballot, look: Look) -> Call {
    if let Some(standing) = &ballot.expects {
        call.bytes(standing.record.as_bytes()).bytes(match look {
            Look::Record => b"",
            Look::Full => b"i",
        });
    }
    call
}

fn on_node(script: &'static Script, node: &[u8]) -> Call {
    const REST: usize = 160;
    let mut call = Call::new(script, 1, node.len() + SECRET + REST);
    call.bytes(node);
    call
}

/// Reads `run quarantine most members longest begun`.
fn stands(reply: &Reply) -> Option<Standing> {
    let Reply::Text(text) = reply else { return None };
    let record = std::str::from_utf8(text).ok()?;
    let words: Vec<_> = record.split(' ').collect();
    let [run, quarantine, most, members, longest, begun] = words[..] else { return None };
    let ttl = |millis: &str| Ttl::new(Duration::from_millis(number(millis.as_bytes())?)).ok();
    let max_ttl = if most == "-" { None } else { Some(ttl(most)?) };
    ttl(longest)?;
    if begun != "-" {
        number::<u64>(begun.as_bytes())?;
    }
    // The rest tells how the server came to its data, and does not identify the server.
    let server = run.split('+').next().filter(|run| !run.is_empty())?;
    let (server, quarantine) = (Server::new(server), Quarantine::new(quarantine));
    Some(Standing::new(server, quarantine, max_ttl, Membership::from_text(members)?, record))
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
        assert_eq!(read("a"), Some(Vote::Abstains));
    }

    #[test]
    fn a_standing_is_read() {
        let (server, quarantine) = (Server::new("a1"), Quarantine::new("b2"));
        let members = "0123456789abcdef01234567";
        let record = format!("a1 b2 - {members} 60000 1700000000000");
        let of = |members| Membership::from_text(members).unwrap();
        let out =
            Standing::new(server.clone(), quarantine.clone(), None, of(members), record.clone());
        assert_eq!(standing(&record), Some(out));
        let record = "a1+c3 b2 30000 - 60000 -";
        let back = Standing::new(server, quarantine, Some(TTL), of("-"), record);
        assert_eq!(standing(record), Some(back));
    }

    #[test]
    fn nonsense_is_no_answer() {
        for text in [
            "",
            "a ",
            "a 0ff",
            "b",
            "b x",
            "b -2",
            "b 1 x",
            "b 1 2 3",
            "b 1 +001feff",
            "7",
            "7 6",
            "c 7",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in [
            "",
            "a",
            "a b",
            "a b -",
            "a b - - 60000",
            "a b c - 60000 -",
            "a b 0 - 60000 -",
            "a b - c 60000 -",
            "a b - - x -",
            "a b - - 60000 x",
            "a b - - 60000 - -",
            "+a b - - 60000 -",
            "a b -1 - 60000 -",
        ] {
            assert_eq!(standing(text), None, "{text}");
        }
        assert_eq!(yes_or_no(&Reply::Int(2)), None);
    }

    /// Eight hexadecimal digits: the length of a tag.
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
                Some(Vote::Abstains) => prop_assert_eq!(&text[..], b"a"),
                Some(other) => prop_assert!(false, "{:?}", other),
                None => {}
            }
        }

        #[test]
        fn no_other_reply_is_a_vote_or_a_standing(reply in garbage::replies()) {
            if let Some(found) = stands(&reply) {
                let Reply::Text(text) = &reply else { panic!("{reply:?}") };
                let words: Vec<_> = text.split(|byte| *byte == b' ').collect();
                prop_assert_eq!(words.len(), 6);
                prop_assert!(words[0].starts_with(found.server.as_str().as_bytes()));
            }
            let said = yes_or_no(&reply);
            prop_assert_eq!(said, match reply { Reply::Int(0) => Some(false), Reply::Int(1) => Some(true), _ => None });
        }
    }
}
