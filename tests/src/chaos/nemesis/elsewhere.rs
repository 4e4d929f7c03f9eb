//! The faults of servers of another kind than Redis.

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

/// Makes another member the leader of a cluster. Returns whether that was possible.
pub(super) fn pass_lead(members: &[Other]) -> bool {
    let listening: Vec<&Other> = members.iter().filter(|member| member.hears()).collect();
    let Some(old) = listening.iter().position(|member| member.leads()) else { return false };
    let new = (old + 1) % listening.len();
    new != old && listening[old].pass_lead(listening[new])
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
