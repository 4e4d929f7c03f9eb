use lock_core::{ErrorKind, Mode, OwnerToken};
use tokio::sync::oneshot::{Receiver, channel};

use super::*;

const EXPIRED: &str = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
const MISSING: &str = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn created(watch_id: i64) -> Watched {
    Watched { watch_id, created: true, ..Watched::default() }
}

fn refused(reason: &str) -> Watched {
    Watched { canceled: true, cancel_reason: reason.to_owned(), ..created(-1) }
}

fn listen(desk: &mut Desk<'_>, name: &str) -> Receiver<Result<(), Error>> {
    let (ready, is_ready) = channel();
    assert!(matches!(desk.obey(Command::Listen { key: key(name), ready }), Next::Go));
    is_ready
}

/// The desk of a session that was made at revision 7. The first stream begins with one bell, and is complete.
fn with_desk(act: impl FnOnce(&mut Desk<'_>)) {
    let (hub, _commands) = Hub::new();
    let (link, names) = (Link::unconnected(), Names::new("p".to_owned()));
    let _hearing = hub.listen(&key("before"));
    let mut desk = Desk::new(&hub, &link, &names, 5, 7, Waiting::new());
    let starts: Vec<_> = desk.begin().iter().map(|create| create.start_revision).collect();
    assert_eq!(starts, [8, 0], "no news of the session are missed");
    assert!(matches!(desk.handle(created(1)), Next::Go));
    assert!(matches!(desk.handle(created(2)), Next::Complete));
    act(&mut desk);
}

#[test]
fn one_refusal_is_about_one_watch() {
    with_desk(|desk| {
        let mut ready = ["a", "b", "c"].map(|name| listen(desk, name));
        assert!(matches!(desk.handle(created(3)), Next::Go));
        assert!(matches!(desk.handle(refused(MISSING)), Next::Go));
        assert!(matches!(desk.handle(created(5)), Next::Go));
        let [a, b, c] = ready.each_mut().map(|it| it.try_recv().expect("it is answered"));
        assert!(a.is_ok() && c.is_ok());
        assert_eq!(b.unwrap_err().kind(), ErrorKind::Denied);
    });
}

#[test]
fn a_refusal_of_a_watch_that_this_client_has_canceled_is_about_no_other_one() {
    with_desk(|desk| {
        drop(listen(desk, "a"));
        let mut other = listen(desk, "b");
        assert!(matches!(desk.obey(Command::Unlisten { key: key("a") }), Next::Go));
        assert!(matches!(desk.handle(refused(MISSING)), Next::Go));
        assert!(matches!(desk.handle(created(4)), Next::Go));
        assert!(other.try_recv().expect("it is answered").is_ok());
    });
}

#[test]
fn who_waits_behind_an_expired_token_waits_for_the_next_stream() {
    with_desk(|desk| {
        let _ears = ["a", "b"].map(|name| desk.hub.listen(&key(name)));
        let mut ready = ["a", "b"].map(|name| listen(desk, name));
        assert!(matches!(desk.handle(refused(EXPIRED)), Next::Reopen));
        assert!(ready.iter_mut().all(|it| it.try_recv().is_err()), "no answer yet");
        let first = desk.begin();
        assert_eq!(first[0].start_revision, 0);
        for create in &first {
            desk.handle(created(create.watch_id));
        }
        assert!(ready.iter_mut().all(|it| it.try_recv().is_ok_and(|it| it.is_ok())));
    });
}
/// The leases that are watched, in order, each with its claim.
fn lives(desk: &Desk<'_>) -> Vec<(Claim, i64)> {
    let life = |topic: &Topic| match topic {
        Topic::Life(claim, lease) => Some((claim.clone(), *lease)),
        _ => None,
    };
    let mut lives: Vec<_> = desk.topics.values().filter_map(life).collect();
    lives.sort_unstable_by_key(|(_, lease)| *lease);
    lives
}

fn await_ends(desk: &mut Desk<'_>, claim: &Claim, leases: &[i64]) {
    let (claim, leases) = (claim.clone(), leases.to_vec());
    assert!(matches!(desk.obey(Command::Await { claim, leases, revision: 9 }), Next::Go));
}

#[test]
fn each_claim_has_its_own_watches_of_leases() {
    with_desk(|desk| {
        let owned = |owner| Claim::exclusive(key("before"), OwnerToken::from_bytes([owner; 16]));
        let [first, second] = [1, 2].map(owned);
        let shared = first.clone().in_mode(Mode::Shared);
        await_ends(desk, &first, &[70, 71]);
        await_ends(desk, &second, &[]);
        await_ends(desk, &shared, &[70]);
        await_ends(desk, &shared, &[]);
        let both = [(first.clone(), 70), (first.clone(), 71)];
        assert_eq!(lives(desk), both);
        await_ends(desk, &first, &[71]);
        assert_eq!(lives(desk), both[1..]);
        await_ends(desk, &first, &[]);
        assert_eq!(lives(desk), []);
    });
}
