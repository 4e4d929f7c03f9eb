use super::*;

/// The deadline of a grant that was pushed just now, and the instant from which on etcd may have ended the session.
fn deadline(place_lasts: Duration, session_lasts: Duration) -> (Instant, Instant) {
    let (hub, _commands) = Hub::new();
    let now = Clock::boot().now();
    let lives_until = now + session_lasts;
    hub.begin(7, lives_until);
    let claim = Claim::exclusive(Key::new("a").unwrap(), OwnerToken::from_bytes([1; 16]));
    let ends = now + place_lasts;
    let place = Place { number: Some(1), ends, claim: place_lasts, is_granted: false };
    hub.join(claim.clone(), place);
    (hub.deadline(&claim.key, claim.owner, 1).unwrap(), lives_until)
}

/// The clock of etcd may have gained on that of the client since the session got its time, which may be long ago.
#[test]
fn a_pushed_grant_ends_before_a_session_that_was_not_kept_alive_for_long() {
    let drift = Ttl::new(session::SESSION).unwrap().drift();
    for left in [1, 100, 1_000, 2_900] {
        let left = Duration::from_millis(left);
        let (deadline, lives_until) = deadline(Duration::from_secs(3), left);
        assert!(deadline + drift <= lives_until, "{left:?}");
    }
}

#[test]
fn a_pushed_grant_ends_with_the_time_to_claim_it() {
    let claim = Duration::from_millis(500);
    let (deadline, lives_until) = deadline(claim, Duration::from_secs(3));
    assert!(deadline + Duration::from_secs(2) < lives_until);
    assert!(deadline > Clock::boot().now(), "most of the time is left");
}
