//! `dlock release`, `dlock destroy` and `dlock init`: what cannot be undone, after a question.

use std::collections::BTreeSet;

use lock_any::doctor::{Finding, hard_to_mend};
use lock_core::{Error, ErrorKind, FencingToken, Inspection, Key};
use lock_sync::{DestroyError, Locks};

use crate::tell::tell;
use crate::view::audit::{self, Outcome, Requester};
use crate::view::confirm::{Answer, ask};
use crate::view::records::name;
use crate::view::shown::count;
use crate::view::signals::Ends;

/// The outcome of the command.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The command has done its work. The text says what it did.
    Done(String),
    /// There was nothing to end.
    Nothing(String),
    /// The user said no.
    Refused,
    /// There is no terminal to ask at, and no `--yes`.
    NoTerminal,
    /// This signal came before the answer of the store.
    Signalled(i32),
}

/// A forced release that was sent.
#[derive(Debug)]
pub(crate) struct Forced {
    pub(crate) outcome: Outcome,
    /// The audit line, for standard error. The logs have it.
    pub(crate) line: String,
}

/// Ends every lease on a lock, and writes the audit line to the logs. If `leaving` ends before the store has answered,
/// the outcome is unknown.
pub(crate) async fn force(
    locks: &Locks,
    requester: &Requester,
    key: &Key,
    before: &Inspection,
    leaving: impl Future<Output = ()>,
) -> Forced {
    let outcome = tokio::select! {
        // An answer that has come counts.
        biased;
        ended = locks.force_release(key.clone()) => ended.map_or_else(Outcome::Failed, Outcome::Ended),
        () = leaving => Outcome::Left,
    };
    let line = audit::line(requester, key, &outcome, before);
    audit::log(&line);
    Forced { outcome, line }
}

/// Ends every lease on a lock, of any owner. The holders learn of it from the store.
pub(crate) async fn release(
    locks: &Locks,
    requester: &Requester,
    key: &Key,
    yes: bool,
) -> Result<Ended, Error> {
    let seen = locks.inspect(key.clone()).await?;
    if seen.holding == 0 {
        return Ok(Ended::Nothing(format!("{}: {seen}", name(key))));
    }
    match ask(&question(key, &seen), yes) {
        Answer::Yes => {}
        Answer::No => return Ok(Ended::Refused),
        Answer::NoTerminal => return Ok(Ended::NoTerminal),
    }
    if !yes {
        // The user may have thought for a while. The yes was about the holders that the question
        // named, and about no others.
        let now = locks.inspect(key.clone()).await?;
        if tokens(&now) != tokens(&seen) {
            let what =
                format!("{}: the holders have changed, and none was ended: {now}", name(key));
            return Ok(Ended::Nothing(what));
        }
    }
    // Only now, so that a signal ends the program while it asks.
    let mut ends = Ends::new().map_err(|error| {
        Error::with_source(ErrorKind::Other, "cannot listen for signals", error)
    })?;
    let mut signal = None;
    let leaving = async { signal = Some(ends.next().await) };
    let Forced { outcome, line } = force(locks, requester, key, &seen, leaving).await;
    tell(line);
    match outcome {
        Outcome::Ended(ended) => {
            Ok(Ended::Done(format!("{}: {} ended", name(key), count(ended, "lease"))))
        }
        Outcome::Failed(error) => Err(error),
        Outcome::Left => Ok(Ended::Signalled(signal.unwrap_or_default())),
    }
}

pub(crate) fn tokens(seen: &Inspection) -> BTreeSet<Option<FencingToken>> {
    seen.holders.iter().map(|holder| holder.token).collect()
}

fn question(key: &Key, seen: &Inspection) -> String {
    format!(
        "{} is {seen}.\nIts holders may be at work. End {}?",
        name(key),
        count(seen.holding, "lease")
    )
}

/// Removes what a lock keeps in the store, if the lock is free.
pub(crate) async fn destroy(locks: &Locks, key: &Key, yes: bool) -> Result<Ended, DestroyError> {
    let seen = locks.inspect(key.clone()).await?;
    if seen.holding + seen.waiting > 0 {
        return Err(DestroyError::InUse(Some(seen)));
    }
    let name = name(key);
    let question =
        format!("Remove what {name} keeps in the store: its value and its number of permits?");
    match ask(&question, yes) {
        Answer::Yes => {}
        Answer::No => return Ok(Ended::Refused),
        Answer::NoTerminal => return Ok(Ended::NoTerminal),
    }
    locks.destroy(key.clone()).await?;
    Ok(Ended::Done(format!("{name}: destroyed")))
}

/// Sets up a new store.
pub(crate) async fn init(url: &str, yes: bool) -> Result<Ended, Error> {
    let shown = lock_any::shown(url);
    let question = format!(
        "Set up {shown} as a new store? Do not, if it is a quorum of which a client holds a lock: two \
         clients may then hold one lock."
    );
    match ask(&question, yes) {
        Answer::Yes => {}
        Answer::No => return Ok(Ended::Refused),
        Answer::NoTerminal => return Ok(Ended::NoTerminal),
    }
    lock_any::init(url).await?;
    // The store is ready even if the examination fails.
    let findings = hard_to_mend(url).await.unwrap_or_default();
    for Finding { severity, code, finding, reason, remedy, .. } in findings {
        tell(format_args!("{severity}: {code}: {finding}: {reason}; {remedy}"));
    }
    Ok(Ended::Done(format!("{shown}: ready for locks")))
}
