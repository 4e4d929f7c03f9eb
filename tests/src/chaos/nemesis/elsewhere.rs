//! The faults of servers of another kind than Redis.

use std::time::{Duration, Instant};

use crate::chaos::Fault;
use crate::chaos::stage::Other;

/// Begins a fault. Returns whether anything was done.
pub(super) fn begin(server: &Other, fault: Fault) -> bool {
    match fault {
        Fault::KillKept | Fault::KillEmpty => server.kill(),
        Fault::StopServer => server.stop(),
        other => return again(server, other),
    }
    true
}

/// The deeds that fail while the server does not listen, or are repeated.
pub(super) fn again(server: &Other, fault: Fault) -> bool {
    match fault {
        Fault::Flush => server.flush(),
        Fault::KillClients => server.kill_clients(),
        _ => false,
    }
}

/// Takes the lead from the leader of a cluster, which may first have to elect one. Returns the leader if that was
/// possible.
pub(super) fn depose(members: &[Other], fault: Fault) -> Option<&Other> {
    let leads = |it: &&Other| it.hears() && it.leads();
    let old = within(super::act::Act::PATIENCE, || members.iter().find(leads))?;
    match fault {
        Fault::KillPrimary => old.kill(),
        Fault::PausePrimary => old.stop(),
        _ => {
            let next = members.iter().find(|it| !std::ptr::eq(*it, old) && it.hears())?;
            return old.pass_lead(next).then_some(old);
        }
    }
    Some(old)
}

/// Lets a former leader go on, once another member leads. If too few members are left for that, it goes on all the
/// same.
pub(super) fn reinstate(old: &Other, members: &[Other], fault: Fault) {
    /// Longer than an election, and than any other fault that may keep a member down.
    const LIMIT: Duration = Duration::from_secs(10);

    let leads = |it: &&Other| !std::ptr::eq(*it, old) && it.hears() && it.leads();
    _ = within(LIMIT, || members.iter().find(leads));
    match fault {
        Fault::KillPrimary => old.rise(false),
        Fault::PausePrimary => old.cont(),
        _ => {}
    }
}

/// Looks until there is something to see, for so long at most.
fn within<T>(limit: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let seen = look();
        if seen.is_some() || begun.elapsed() >= limit {
            return seen;
        }
        std::thread::sleep(super::millis(50));
    }
}

/// Ends a fault, which had an effect or not.
pub(super) fn end(server: &Other, fault: Fault) -> bool {
    match fault {
        Fault::KillKept => server.rise(false),
        Fault::KillEmpty => server.rise(true),
        Fault::StopServer => server.cont(),
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::Deployment;
    use crate::{SOON, eventually};

    #[test]
    fn another_member_leads_before_a_former_leader_goes_on() {
        let members = Other::start(Deployment::Members);
        for fault in [Fault::KillPrimary, Fault::PausePrimary, Fault::FailOver] {
            let leaders = || members.iter().filter(|it| it.leads()).count();
            eventually("one member leads", SOON, || leaders() == 1);
            let old = depose(&members, fault).unwrap();
            assert_eq!(old.hears(), fault == Fault::FailOver, "{fault}");
            reinstate(old, &members, fault);
            assert!(old.hears(), "{fault}");
            assert!(members.iter().any(|it| !std::ptr::eq(it, old) && it.leads()), "{fault}");
        }
    }
}
