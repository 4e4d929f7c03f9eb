//! Renewing a lease on all nodes.

use std::num::NonZeroU32;
use std::sync::Arc;

use lock_core::{
    Claim, Demand, Error, ErrorKind, FencingToken, Instant, QuorumNode, Renew, Renewal, TokenRange,
};

use crate::asked::{Asked, late};
use crate::inner::Core;
use crate::release::let_go;
use crate::tokens::{Agreement, Step};
use crate::validity;

/// What a node answers.
enum Reply {
    Renewed(Renewal),
    /// Whether it confirms this token. Whoever does not answer, does not.
    Confirmed(FencingToken, bool),
}

/// Renews a claim, if a majority still has it. Nodes that do not are then asked to vote for it again, and also if
/// too few have answered: as long as the lease is not over, one of them may take the place of one that is away.
///
/// If it asks for tokens, there is a second round, in which the nodes agree on them. If they do not, it brings
/// none.
pub(crate) async fn renew<N: QuorumNode>(core: &Arc<Core<N>>, request: &Renew) -> Renewal {
    let claim = &request.claim;
    if let Err(error) = core.settings.check(request.ttl) {
        return Renewal::Unknown(error);
    }
    let before = core.claims.held(claim, core.clock.now());
    let mut asked =
        core.ask(0..core.quorum.nodes(), core.settings.limit(request.ttl), |core, node| {
            let renewed = core.renew(node, request.clone());
            async move { Ok(Reply::Renewed(renewed.await?)) }
        });
    let mut poll = Poll::new(core, request.tokens);
    while poll.is_open(asked.open().len()) {
        let Some(batch) = asked.answers().await else { break };
        batch.into_iter().for_each(|(node, reply)| poll.note(node, reply));
    }
    tracing::debug!(
        target: "lock_redlock", key = %claim.key,
        renewed = poll.deadlines.len(), lost = poll.lost.len(), "renew"
    );
    let plain = Renew::new(claim.clone(), request.ttl);
    if let Some((valid_until, nodes)) = validity::until(&poll.deadlines, core.quorum.needed()) {
        core.claims.renew(claim, valid_until, nodes);
        poll.lost.iter().for_each(|&node| core.replant(node, &plain));
        let tokens = poll.agree(&mut asked, claim).await;
        if let Some(tokens) = tokens {
            core.claims.raise(&claim.key, tokens.last());
        }
        let core = Arc::clone(core);
        asked.finish(move |node, reply| {
            if let Ok(Reply::Renewed(Renewal::Lost)) = reply {
                core.replant(node, &plain);
            }
        });
        return Renewal::Renewed { valid_until, tokens, demand: Demand::Unknown };
    }
    if poll.is_lost() {
        if core.claims.is_had_anew(claim, before, core.clock.now()) {
            let error = Error::new(ErrorKind::NotReady, "it is being granted anew");
            return Renewal::Unknown(error);
        }
        // What is left of it is in others' way.
        let_go(core, claim);
        return Renewal::Lost;
    }
    for node in asked.open().iter() {
        poll.said[node] = Some(late(asked.limit()));
    }
    // Their votes may be what the next renewal needs.
    poll.lost.iter().for_each(|&node| core.replant(node, &plain));
    Renewal::Unknown(core.failure("renewed it", poll.deadlines.len(), &poll.said))
}

/// What the nodes have answered.
struct Poll<N> {
    core: Arc<Core<N>>,
    deadlines: Vec<(usize, Instant)>,
    /// Those that have lost it, and are to vote for it again.
    lost: Vec<usize>,
    said: Vec<Option<Error>>,
    /// How many have answered the renewal, in whatever way.
    answered: usize,
    /// On the tokens, if any are wanted.
    agreement: Option<Agreement>,
}

impl<N: QuorumNode> Poll<N> {
    fn new(core: &Arc<Core<N>>, tokens: u32) -> Self {
        let wanted = NonZeroU32::new(tokens);
        Self {
            core: Arc::clone(core),
            deadlines: Vec::new(),
            lost: Vec::new(),
            said: vec![None; core.quorum.nodes()],
            answered: 0,
            agreement: wanted.map(|wanted| Agreement::new(core.quorum, wanted)),
        }
    }

    fn note(&mut self, node: usize, reply: Result<Reply, Error>) {
        match reply {
            Ok(Reply::Renewed(renewal)) => {
                self.answered += 1;
                self.note_renewal(node, renewal);
            }
            Ok(Reply::Confirmed(token, is_so)) => {
                if let Some(agreement) = &mut self.agreement {
                    if is_so { agreement.confirm(node, token) } else { agreement.refuse(node) }
                }
            }
            Err(error) => {
                self.answered += 1;
                self.said[node] = Some(error);
            }
        }
    }

    fn note_renewal(&mut self, node: usize, renewal: Renewal) {
        match renewal {
            Renewal::Renewed { valid_until, tokens, .. } => {
                self.deadlines.push((node, valid_until));
                if let (Some(agreement), Some(tokens)) = (&mut self.agreement, tokens) {
                    agreement.grant(node, tokens);
                }
            }
            Renewal::Lost => self.lost.push(node),
            Renewal::Unknown(error) => self.said[node] = Some(error),
            _ => self.said[node] = Some(Error::new(ErrorKind::NotReady, "not renewed")),
        }
    }

    /// Whether it is still to be seen if a majority has renewed it, or lost it.
    fn is_open(&self, open: usize) -> bool {
        let (needed, renewed) = (self.core.quorum.needed(), self.deadlines.len());
        renewed < needed && !self.is_lost() && renewed + open >= needed
    }

    fn is_lost(&self) -> bool {
        self.lost.len() > self.core.quorum.nodes() - self.core.quorum.needed()
    }

    /// Has a majority agree on the tokens that its nodes have reserved.
    async fn agree(&mut self, asked: &mut Asked<N, Reply>, claim: &Claim) -> Option<TokenRange> {
        asked.extend();
        loop {
            let open = self.core.quorum.nodes().saturating_sub(self.answered);
            match self.agreement.as_mut()?.step(open) {
                Step::Agreed(tokens, _) => return Some(tokens),
                Step::Impossible => return None,
                Step::Wait => {}
                Step::Confirm(token, nodes) => {
                    for node in nodes.iter() {
                        let confirmed = Arc::clone(&self.core).confirm(node, claim.clone(), token);
                        asked.ask(node, async move {
                            let is_so = confirmed.await.unwrap_or(false);
                            Ok(Reply::Confirmed(token, is_so))
                        });
                    }
                }
            }
            let batch = asked.answers().await?;
            batch.into_iter().for_each(|(node, reply)| self.note(node, reply));
        }
    }
}
