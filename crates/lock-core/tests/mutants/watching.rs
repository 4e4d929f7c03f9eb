//! Bugs of watching.

use std::future::ready;
use std::sync::Mutex;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use futures::stream::{pending, select};
use lock_core::{
    Backend, Clock, FencingToken, Grant, Hint, Key, LoadedValue, Mode, OwnerToken, Result,
};
use lock_core::{TokenRange, Watch};

use crate::bug::Bug;
use crate::mutant::{Mutant, Shared};

impl Mutant {
    pub(crate) async fn watch_wrongly(&self, key: &Key) -> Result<Watch> {
        let watch = self.store.watch(key).await?;
        let first = self.shared().watched.insert(key.clone());
        let (bug, clock, shared) = (self.bug, self.clock(), self.share());
        let heard = move |hint| ready(heard_wrongly(bug, hint, clock, &shared));
        Ok(match self.bug {
            Bug::NeverHints => Watch::new(pending()),
            Bug::HintsOnce => Watch::new(watch.take(1).chain(pending())),
            Bug::HintsToOne if !first => Watch::new(pending()),
            Bug::HintsOfAllKeys => {
                let (sender, hints) = mpsc::unbounded();
                self.shared().listeners.push(sender);
                Watch::new(hints)
            }
            Bug::TellsOfGrantsOnAllWatches | Bug::TellsEveryListenerWhichClaimIsNext => {
                let (sender, hints) = mpsc::unbounded();
                self.shared().listeners.push(sender);
                Watch::new(select(watch.filter_map(heard), hints))
            }
            Bug::TellsOfFreeKeysAlone => {
                let store = self.store.clone();
                Watch::new(
                    watch.filter(move |hint| {
                        ready(*hint != Hint::Released || store.live_leases() == 0)
                    }),
                )
            }
            Bug::HidesACut => Watch::new(watch.chain(pending())),
            Bug::HandsOverToTheDead => {
                let leaked = self.store.watch(key).await?;
                self.shared().leaked.push(leaked);
                watch
            }
            _ => Watch::new(watch.filter_map(heard)),
        })
    }
}

/// The wrong hint that replaces the hint that a claim is the next.
fn next_wrongly(bug: Bug, hint: Hint, owner: OwnerToken, shared: &Shared) -> Option<Hint> {
    match bug {
        Bug::TellsNobodyThatItIsNext => return None,
        Bug::TellsTheNextToAskAtOnce => return Some(Hint::Next { owner, after: Duration::ZERO }),
        Bug::TellsEveryListenerWhichClaimIsNext => shared.tell_all_listeners(&hint),
        _ => {}
    }
    Some(hint)
}

/// The wrong hint that replaces a hint.
fn heard_wrongly(bug: Bug, hint: Hint, clock: Clock, shared: &Mutex<Shared>) -> Option<Hint> {
    let mut shared = shared.lock().expect("no mutant panics");
    if let Hint::Next { owner, .. } = hint {
        return next_wrongly(bug, hint, owner, &shared);
    }
    let Hint::Granted { owner, grant: Some(grant) } = hint else {
        let unheard = match bug {
            Bug::NeverSaysContended => Some(Hint::Contended),
            Bug::StoringTellsNobody => Some(Hint::Changed),
            Bug::ClosingTellsNobody | Bug::AddingTellsNobody | Bug::DeclaringTellsNobody => {
                Some(Hint::Released)
            }
            _ => None,
        };
        return (unheard.as_ref() != Some(&hint)).then_some(hint);
    };
    granted_wrongly(bug, owner, grant, clock, &mut shared)
}

/// The wrong hint that replaces the hint of a grant.
fn granted_wrongly(
    bug: Bug,
    owner: OwnerToken,
    mut grant: Grant,
    clock: Clock,
    shared: &mut Shared,
) -> Option<Hint> {
    match bug {
        Bug::TellsNobodyOfTheirGrant => return None,
        Bug::TellsOneMemberAlone => {
            let waiting =
                shared.line.iter().find(|(_, waiting)| waiting.request.claim.owner == owner);
            let mode = waiting.map(|(_, waiting)| waiting.request.claim.mode);
            if let Some(Mode::Joint { group }) = mode
                && shared.groups.insert(group, grant.tokens).is_some()
            {
                return None;
            }
        }
        Bug::AnnouncesOtherTokens => {
            let next = FencingToken::new(grant.tokens.last().get() + 1);
            grant.tokens = TokenRange::single(next);
        }
        Bug::DatesPushesFromTheReading => {
            let waiting =
                shared.line.iter().find(|(_, waiting)| waiting.request.claim.owner == owner);
            if let Some((_, waiting)) = waiting {
                grant.valid_until = waiting.request.ttl.for_grant().valid_until(clock.now());
            }
        }
        Bug::TellsOfGrantsOnAllWatches => {
            let hint = Hint::Granted { owner, grant: Some(grant.clone()) };
            shared.tell_all_listeners(&hint);
        }
        Bug::PushesBringNoValue => {
            grant.value = grant.value.take().map(|_| LoadedValue::new(None));
        }
        _ => {}
    }
    Some(Hint::Granted { owner, grant: Some(grant) })
}
