//! Values that one caller makes and all read.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_sync::{OnceCell, OnceCellError};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::mortal::Mortal;
use super::{Pair, SHORT, Stage, until_held, waits};
use crate::soon;

/// Of many callers of both clients one makes the value, and all read that value.
pub async fn one_caller_makes_the_value_and_all_read_it<S: Stage>() {
    let pair = Pair::<S>::new().await;
    for round in 0..10 {
        let name = format!("it {round}");
        let begun = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for task in 0..16_usize {
            let locks = if task % 2 == 0 { &pair.here } else { &pair.there };
            let cell: OnceCell<usize> = locks.once_cell(&name).unwrap();
            let begun = Arc::clone(&begun);
            tasks.spawn(async move {
                let make = async || {
                    begun.fetch_add(1, Ordering::AcqRel);
                    tokio::task::yield_now().await;
                    task
                };
                *cell.get_or_init(make).await.unwrap()
            });
        }
        let values = soon(tasks.join_all()).await;
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        assert_eq!(begun.load(Ordering::Acquire), 1);
        let late: OnceCell<usize> = pair.third().await.once_cell(&name).unwrap();
        assert_eq!(soon(late.load()).await.unwrap(), Some(&values[0]));
    }
}

/// A caller makes no value while another client makes one.
pub async fn a_caller_waits_for_the_value_that_another_client_makes<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (ours, theirs) = pair.both(|locks| locks.once_cell::<u32, _>("it").unwrap());
    assert_eq!(theirs.load().await.unwrap(), None);
    let (begin, begun) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let make = ours.get_or_init(async || {
        begin.send(()).unwrap();
        ended.await.unwrap()
    });
    let follow = async {
        begun.await.unwrap();
        let mut late = Box::pin(theirs.get_or_init(async || 8));
        waits(&mut late).await;
        end.send(7).unwrap();
        *late.await.unwrap()
    };
    let (first, second) = soon(async { tokio::join!(make, follow) }).await;
    assert_eq!((*first.unwrap(), second), (7, 7));
}

/// The next caller makes the value once the lease of the dead client is over.
pub async fn a_client_that_dies_while_it_makes_the_value_is_followed<S: Stage>() {
    let pair = Pair::<S>::with(|locks| locks.ttl(SHORT)).await;
    let mortal = Mortal::of(&pair.stage).await;
    let cell: OnceCell<String> = mortal.locks.once_cell("it").unwrap();
    let (begin, begun) = oneshot::channel();
    let dying = tokio::spawn(async move {
        let work = async || {
            begin.send(()).unwrap();
            pending().await
        };
        cell.get_or_init(work).await.cloned()
    });
    soon(begun).await.unwrap();
    until_held(&pair.there, "it", 1).await;
    let cell: OnceCell<String> = pair.here.once_cell("it").unwrap();
    let mut next = Box::pin(cell.get_or_init(async || "theirs".to_owned()));
    waits(&mut next).await;

    drop(mortal);
    assert!(matches!(soon(dying).await.unwrap(), Err(OnceCellError::Lost(_))));
    assert_eq!(soon(next).await.unwrap(), "theirs");
    let cell: OnceCell<String> = pair.there.once_cell("it").unwrap();
    assert_eq!(soon(cell.load()).await.unwrap().unwrap(), "theirs");
}
