//! One lock, from the request to the release.

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;

use lock_core::Error as BackendError;
use tokio::sync::mpsc;

use super::guard::Guard;
use super::lock::{Lock, Patience, Refused};
use crate::voice::say;

/// A task that waits for a lock or holds it.
pub(crate) struct Hold {
    orders: mpsc::UnboundedSender<Order>,
}

/// How to take a lock, and for how long to hold it.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) patience: Patience,
    pub(crate) time: Option<Duration>,
}

/// The commands for a holder.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Valid,
    Unlock,
    Drop,
    /// Whether to wait for other holders.
    Upgrade(bool),
    /// Whether to stay upgradable.
    Downgrade(bool),
    /// Releases this many permits.
    Give(usize),
    Forget,
}

impl Hold {
    pub(crate) fn begin(lock: Result<Lock, BackendError>, name: &str, how: How) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(lock, name.to_owned(), how, inbox));
        Self { orders }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.orders.is_closed()
    }

    pub(crate) fn tell(&self, order: Order) -> Result<(), mpsc::error::SendError<Order>> {
        self.orders.send(order)
    }
}

async fn run(
    lock: Result<Lock, BackendError>,
    name: String,
    how: How,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let last = match lock {
        Ok(mut lock) => wait_and_hold(&mut lock, &name, how, &mut orders).await,
        Err(error) => failed(&name, &error),
    };
    // A reader of the last word may take the lock again at once.
    drop(orders);
    say(last);
}

/// Takes the lock and holds it until a command ends that. Returns the outcome.
async fn wait_and_hold(
    lock: &mut Lock,
    name: &str,
    how: How,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> String {
    match unless_dropped(lock.take(how.patience), name, orders).await {
        None => format!("dropped {name}"),
        Some(Ok(guard)) => {
            say(format_args!("locked {name} {}", guard.lease().fencing_token()));
            hold(guard, name, how.time, orders).await
        }
        Some(Err(refused)) => refused.words(name),
    }
}

/// Waits for a future; `None` if a command released the lock in the meantime.
async fn unless_dropped<F: Future>(
    waiting: F,
    name: &str,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Option<F::Output> {
    tokio::pin!(waiting);
    loop {
        tokio::select! {
            output = &mut waiting => return Some(output),
            order = orders.recv() => match order {
                // There is only the future to drop.
                Some(Order::Unlock | Order::Drop) | None => return None,
                Some(Order::Valid) => say(format_args!("valid {name} false")),
                Some(_) => say(format_args!("failed {name} still waits")),
            },
        }
    }
}

async fn hold<'a>(
    mut guard: Guard<'a>,
    name: &str,
    time: Option<Duration>,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> String {
    let over = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let lost = guard.lease().lost();
    tokio::pin!(lost, over);
    let mut is_lost = false;
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            () = &mut over => Some(Order::Unlock),
            _ = &mut lost, if !is_lost => {
                is_lost = true;
                say(format_args!("lost {name} {}", guard.lease().fencing_token()));
                continue;
            }
        };
        guard = match obey(guard, name, order.unwrap_or(Order::Drop), orders).await {
            ControlFlow::Continue(guard) => guard,
            ControlFlow::Break(end) => return end,
        };
        if !is_lost {
            lost.set(guard.lease().lost());
        }
    }
}

/// The guard afterwards, or how it ended.
async fn obey<'a>(
    mut guard: Guard<'a>,
    name: &str,
    order: Order,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> ControlFlow<String, Guard<'a>> {
    match order {
        Order::Valid => say(format_args!("valid {name} {}", guard.lease().is_valid())),
        Order::Unlock => {
            return ControlFlow::Break(match guard.release().await {
                Ok(()) => format!("unlocked {name}"),
                Err(error) => failed(name, &error),
            });
        }
        Order::Drop => {
            drop(guard);
            return ControlFlow::Break(format!("dropped {name}"));
        }
        Order::Upgrade(wait) => {
            let Some(upgraded) = unless_dropped(guard.upgrade(wait), name, orders).await else {
                return ControlFlow::Break(format!("dropped {name}"));
            };
            guard = told_upgrade(upgraded, name);
        }
        Order::Downgrade(upgradable) => guard = downgrade(guard, upgradable, name),
        Order::Give(count) => give(&mut guard, count, name).await,
        Order::Forget => match guard.forget() {
            Ok(()) => return ControlFlow::Break(format!("forgot {name}")),
            Err(kept) => {
                say(format_args!("failed {name} has no permits"));
                guard = kept;
            }
        },
    }
    ControlFlow::Continue(guard)
}

fn told_upgrade<'a>(upgraded: Result<Guard<'a>, (Guard<'a>, Refused)>, name: &str) -> Guard<'a> {
    match upgraded {
        Ok(guard) => {
            say(format_args!("upgraded {name} {}", guard.lease().fencing_token()));
            guard
        }
        Err((guard, refused)) => {
            say(refused.words(name));
            guard
        }
    }
}

fn downgrade<'a>(guard: Guard<'a>, upgradable: bool, name: &str) -> Guard<'a> {
    match guard.downgrade(upgradable) {
        Ok(guard) => {
            say(format_args!("downgraded {name}"));
            guard
        }
        Err(guard) => {
            say(format_args!("failed {name} cannot be downgraded"));
            guard
        }
    }
}

async fn give(guard: &mut Guard<'_>, count: usize, name: &str) {
    match guard.split(count) {
        None => say(format_args!("failed {name} has not as many permits")),
        Some(part) => match part.release().await {
            Ok(()) => say(format_args!("gave {name} {count}")),
            Err(error) => say(failed(name, &error)),
        },
    }
}

impl Refused {
    fn words(&self, name: &str) -> String {
        match self {
            Self::Busy => format!("busy {name}"),
            Self::Failed(error) => failed(name, &**error),
        }
    }
}

/// The error with its causes.
pub(crate) fn failed(name: &str, error: &dyn Error) -> String {
    let mut text = format!("failed {name} {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
