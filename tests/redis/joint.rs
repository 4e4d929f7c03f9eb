//! Owners that hold a lock jointly.

use lock_core::{
    AcquireOutcome, Backend, Claim, Convert, ConvertBackend, Mode, OwnerToken, Released, Renew,
    Renewal,
};

use crate::support::{Server, Waiter, claim, granted, long, open, refused};

fn group() -> Mode {
    Mode::Joint { group: OwnerToken::generate().unwrap() }
}

fn member(group: Mode) -> Claim {
    claim("a").in_mode(group)
}

#[tokio::test]
async fn a_group_leaves_nothing_but_the_fence() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let ours = group();
    let (first, second) = (member(ours), member(ours));
    let tokens = granted(&one, &first).await.tokens;
    assert_eq!(granted(&other, &second).await.tokens, tokens);
    // The value of the key is as long as an owner's token, and no script has to set it anew.
    assert_eq!(raw.command::<usize>(&["STRLEN", "lock:{a}"]), 32);
    one.release(&first).await.unwrap();
    assert!(raw.command::<bool>(&["EXISTS", "lock:{a}"]));
    other.release(&second).await.unwrap();
    assert_eq!(raw.command::<Vec<String>>(&["KEYS", "*"]), ["lock:{a}:state"]);
    assert!(granted(&one, &first).await.tokens.first() > tokens.last());
}

#[tokio::test]
async fn a_group_is_granted_together_wherever_its_members_stand() {
    let server = Server::start();
    let (holder, one, other) = (open(&server), open(&server), open(&server));
    let held = claim("a");
    granted(&holder, &held).await;
    let (ours, theirs) = (group(), group());
    let mut line = Vec::new();
    for (backend, mode) in [(&one, ours), (&other, theirs), (&one, Mode::Exclusive), (&other, ours)]
    {
        line.push(Waiter::queue(backend, member(mode)).await);
    }
    holder.release(&held).await.unwrap();
    let tokens = line[0].gets_it().await.tokens;
    assert_eq!(line[3].gets_it().await.tokens, tokens);
    // A later member needs no place in the queue.
    let late = member(ours);
    assert_eq!(granted(&holder, &late).await.tokens, tokens);
    for stranger in [&line[1], &line[2]] {
        assert!(matches!(stranger.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    }
    line[0].release().await;
    line[3].release().await;
    assert!(matches!(line[1].ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    holder.release(&late).await.unwrap();
    assert!(line[1].gets_it().await.tokens.first() > tokens.last());
    line[1].release().await;
    line[2].gets_it().await;
}

#[tokio::test]
async fn a_member_that_waits_in_line_is_let_in_when_it_asks() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let ours = group();
    let (first, reader) = (member(ours), claim("a").in_mode(Mode::Shared));
    granted(&one, &reader).await;
    let waiter = Waiter::queue(&other, member(ours)).await;
    // As if the group had entered elsewhere, while this claim waits.
    let mut raw = server.client();
    raw.command::<()>(&["DEL", "lock:{a}:queue", "lock:{a}:places"]);
    one.release(&reader).await.unwrap();
    let tokens = granted(&one, &first).await.tokens;
    assert_eq!(waiter.asks_and_has().await.tokens, tokens);
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{a}:queue"]));
    refused(&one, &member(group())).await;
}

#[tokio::test]
async fn a_group_without_known_tokens_admits_no_member() {
    let server = Server::start();
    let backend = open(&server);
    let ours = group();
    let first = member(ours);
    granted(&backend, &first).await;
    server.client().command::<()>(&["DEL", "lock:{a}:grants"]);
    refused(&backend, &member(ours)).await;
    assert!(matches!(backend.release(&first).await.unwrap(), Released::Freed { .. }));
    granted(&backend, &member(ours)).await;
}

#[tokio::test]
async fn a_renewal_of_a_member_brings_no_tokens() {
    let server = Server::start();
    let backend = open(&server);
    let first = member(group());
    let grant = granted(&backend, &first).await;
    let renewal = backend.renew(&Renew::new(first.clone(), long()).reserving(1_000)).await;
    assert!(matches!(renewal, Renewal::Renewed { tokens: None, .. }), "{renewal:?}");
    assert_eq!(granted(&backend, &first).await.tokens, grant.tokens);
    // A joint lease cannot be converted, nor another lease into a joint one.
    for (from, to) in [(first.mode, Mode::Shared), (Mode::Exclusive, first.mode)] {
        let request = Convert::new(first.clone().in_mode(from), to, long());
        assert!(backend.convert(&request).await.is_err());
    }
}
