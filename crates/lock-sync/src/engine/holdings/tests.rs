//! The counters of holds, and that they agree with the algebra of modes.

use lock_core::OwnerToken;

use super::*;

const OF: u32 = 5;

fn permits(take: u32) -> Mode {
    Mode::Permits { take, of: OF }
}

fn add(holds: &mut Holdings, serial: u64, mode: Mode) -> HoldId {
    holds.add(0, serial, mode, FencingToken::new(serial), Instant::FAR_FUTURE)
}

#[test]
fn readers_fit_beside_one_another_and_not_beside_a_writer() {
    let mut holds = Holdings::default();
    let lease = Mode::Exclusive;
    let one = add(&mut holds, 1, Mode::Shared);
    let two = add(&mut holds, 2, Mode::Upgradable);
    assert!(holds.have_room(lease, Mode::Shared));
    assert!(!holds.have_room(lease, Mode::Upgradable) && !holds.have_room(lease, lease));
    assert_eq!(holds.need(lease), Mode::Upgradable);
    holds.remove(two);
    assert_eq!(holds.need(lease), Mode::Shared);
    assert!(holds.have_room(lease, Mode::Upgradable));
    holds.remove(one);
    assert!(holds.remove(one).is_none(), "only once");
    let writer = add(&mut holds, 3, Mode::Exclusive);
    assert!(!holds.have_room(lease, Mode::Shared));
    assert_eq!(holds.end_all(), [3]);
    assert!(!holds.have_room(lease, Mode::Shared), "its guard can still reach the data");
    holds.remove(writer);
    assert!(holds.is_empty() && holds.have_room(lease, Mode::Exclusive));
}

#[test]
fn permits_add_up() {
    let mut holds = Holdings::default();
    let three = add(&mut holds, 1, permits(3));
    assert!(holds.have_room(permits(5), permits(2)) && !holds.have_room(permits(4), permits(2)));
    holds.change(three, |holding| holding.mode = permits(1));
    assert_eq!(holds.need(permits(5)), permits(1));
    holds.change(three, |holding| holding.state = State::Forgotten);
    assert!(holds.live() == 0 && !holds.is_empty());
    assert_eq!(holds.need(permits(5)), permits(1), "what is forgotten is held until it is gone");
    holds.remove(three);
    assert!(holds.is_empty());
}

#[test]
fn the_first_limit_is_found() {
    let mut holds = Holdings::default();
    let at = |nanos| Instant::from_nanos(nanos);
    let token = FencingToken::new(1);
    let late = holds.add(0, 1, Mode::Shared, token, at(20));
    let early = holds.add(0, 2, Mode::Shared, token, at(10));
    assert_eq!(holds.first_limit(), at(10));
    assert_eq!(holds.overdue(0, at(9)), None);
    assert_eq!(holds.overdue(0, at(10)), Some(early));
    holds.remove(early);
    assert_eq!(holds.overdue(0, at(10)), None);
    assert_eq!(holds.first_limit(), at(20));
    assert_eq!(holds.overdue(0, at(25)), Some(late));
}

/// Every mode that a lease or a hold can have, with few permits.
fn modes() -> Vec<Mode> {
    let joint = |byte| Mode::Joint { group: OwnerToken::from_bytes([byte; 16]) };
    let plain = [Mode::Exclusive, Mode::Upgradable, Mode::Shared, joint(1), joint(2)];
    plain.into_iter().chain((1..=OF).map(permits)).collect()
}

/// Some holds on one lease, with their modes and states.
type Scene = Vec<(Mode, State)>;

fn holds_of(scene: &[(Mode, State)]) -> Holdings {
    let mut holds = Holdings::default();
    for (serial, (mode, state)) in (1..).zip(scene) {
        let id = add(&mut holds, serial, *mode);
        holds.change(id, |holding| holding.state = *state);
    }
    holds
}

/// What the guard of a dead hold may still do to the data: an upgradable guard only reads.
fn reach(mode: Mode) -> Option<Mode> {
    match mode {
        Mode::Permits { .. } => None,
        Mode::Upgradable => Some(Mode::Shared),
        _ => Some(mode),
    }
}

/// The modes in which the holds count beside others.
fn counted(scene: &[(Mode, State)]) -> Vec<Mode> {
    let count = |(mode, state): &(Mode, State)| match state {
        State::Dead => reach(*mode),
        State::Live | State::Forgotten => Some(*mode),
    };
    scene.iter().filter_map(count).collect()
}

/// Whether the algebra lets one more hold onto the lease.
fn fits(lease: Mode, held: &[Mode], want: Mode) -> bool {
    lease.covers(want) && want.fits_beside(held.iter().copied(), lease.permits())
}

/// Whether a lease in this mode is enough for all these holds.
fn is_enough(lease: Mode, held: &[Mode]) -> bool {
    (0..held.len()).all(|next| fits(lease, &held[..next], held[next]))
}

/// Each lease with up to three holds, of which each fits when it comes, and may die or be forgotten before the next.
fn scenes() -> Vec<(Mode, Scene)> {
    let mut all: Vec<_> = modes().into_iter().map(|lease| (lease, Scene::new())).collect();
    let mut last = all.clone();
    for _ in 0..3 {
        last = last.iter().flat_map(longer).collect();
        all.extend(last.iter().cloned());
    }
    all
}

fn longer((lease, scene): &(Mode, Scene)) -> Vec<(Mode, Scene)> {
    let held = counted(scene);
    let next = modes().into_iter().filter(|want| fits(*lease, &held, *want));
    let states = [State::Live, State::Dead, State::Forgotten];
    next.flat_map(|want| states.map(|state| (want, state)))
        .filter(|(want, state)| *state != State::Forgotten || want.counts())
        .map(|hold| (*lease, scene.iter().copied().chain([hold]).collect()))
        .collect()
}

#[test]
fn a_lease_has_room_for_what_fits_by_the_algebra_of_modes() {
    for (lease, scene) in scenes() {
        let (holds, held) = (holds_of(&scene), counted(&scene));
        for want in modes() {
            let has_room = lease.covers(want) && holds.have_room(lease, want);
            assert_eq!(has_room, fits(lease, &held, want), "{want:?} on {lease:?} with {scene:?}");
        }
    }
}

#[test]
fn holds_need_the_weakest_lease_that_is_enough_by_the_algebra_of_modes() {
    for (lease, scene) in scenes() {
        let (holds, held) = (holds_of(&scene), counted(&scene));
        let need = holds.need(lease);
        if scene.iter().all(|(_, state)| *state == State::Dead) {
            assert_eq!(need, lease, "a lease without holders keeps its mode: {scene:?}");
            continue;
        }
        for mode in modes().into_iter().filter(|mode| lease.covers(*mode)) {
            let enough = is_enough(mode, &held);
            assert_eq!(enough, mode.covers(need), "{mode:?} for {scene:?} on {lease:?}");
        }
    }
}

#[test]
fn guards_tolerate_the_access_that_fits_beside_their_own_by_the_algebra_of_modes() {
    let data = [Mode::Exclusive, Mode::Upgradable, Mode::Shared];
    for (lease, scene) in scenes().into_iter().filter(|(lease, _)| data.contains(lease)) {
        let holds = holds_of(&scene);
        let reached: Vec<_> = scene.iter().filter_map(|(mode, _)| reach(*mode)).collect();
        for want in data {
            let fits = want.fits_beside(reached.iter().copied(), 0);
            assert_eq!(holds.tolerate(lease, want), fits, "{want:?} beside {scene:?}");
        }
    }
}
