//! One lock, from asking for it to letting go.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Error as BackendError;
use lock_sync::{Mutex, MutexGuard, TryLockError};
use tokio::sync::mpsc;

use crate::say;

/// A task that waits for a lock or holds it.
pub(crate) struct Hold {
    orders: mpsc::UnboundedSender<Order>,
}

#[derive(Clone, Copy)]
pub(crate) enum How {
    Lock,
    Try,
    Within(Duration),
    For(Duration),
}

#[derive(Clone, Copy)]
pub(crate) enum Order {
    Valid,
    Unlock,
    Drop,
}

impl Hold {
    pub(crate) fn begin(mutex: Result<Arc<Mutex<()>>, BackendError>, key: &str, how: How) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(mutex, key.to_owned(), how, inbox));
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
    mutex: Result<Arc<Mutex<()>>, BackendError>,
    key: String,
    how: How,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let last = match mutex {
        Ok(mutex) => wait_and_hold(&mutex, &key, how, &mut orders).await,
        Err(error) => failed(&key, &error),
    };
    // Whoever reads the last word may take the lock anew at once.
    drop(orders);
    say(last);
}

/// Takes the lock and holds it until it is told otherwise; what has become of it in the end.
async fn wait_and_hold(
    mutex: &Mutex<()>,
    key: &str,
    how: How,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> String {
    let acquire = acquire(mutex, how);
    tokio::pin!(acquire);
    loop {
        tokio::select! {
            result = &mut acquire => return match result {
                Ok(guard) => {
                    say(format_args!("locked {key} {}", guard.fencing_token()));
                    hold(guard, key, how, orders).await
                }
                Err(Refused::Busy) => format!("busy {key}"),
                Err(Refused::Failed(error)) => failed(key, &*error),
            },
            order = orders.recv() => match order {
                Some(Order::Valid) => say(format_args!("valid {key} false")),
                // Nothing is held yet: the future is all there is to let go of.
                Some(Order::Unlock | Order::Drop) | None => return format!("dropped {key}"),
            },
        }
    }
}

enum Refused {
    Busy,
    Failed(Box<dyn Error + Send + Sync>),
}

impl<E: Error + Send + Sync + 'static> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

async fn acquire(mutex: &Mutex<()>, how: How) -> Result<MutexGuard<'_, ()>, Refused> {
    Ok(match how {
        How::Lock | How::For(_) => mutex.lock().await?,
        How::Within(limit) => mutex.lock_timeout(limit).await?,
        How::Try => match mutex.try_lock().await {
            Err(TryLockError::WouldBlock) => return Err(Refused::Busy),
            result => result?,
        },
    })
}

async fn hold(
    guard: MutexGuard<'_, ()>,
    key: &str,
    how: How,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> String {
    let lost = guard.lost();
    let over = async {
        match how {
            How::For(time) => tokio::time::sleep(time).await,
            _ => std::future::pending().await,
        }
    };
    tokio::pin!(lost, over);
    let mut is_lost = false;
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            () = &mut over => Some(Order::Unlock),
            _ = &mut lost, if !is_lost => {
                is_lost = true;
                say(format_args!("lost {key} {}", guard.fencing_token()));
                continue;
            }
        };
        match order {
            Some(Order::Valid) => say(format_args!("valid {key} {}", guard.is_valid())),
            Some(Order::Unlock) => {
                return match guard.release().await {
                    Ok(()) => format!("unlocked {key}"),
                    Err(error) => failed(key, &error),
                };
            }
            Some(Order::Drop) | None => {
                drop(guard);
                return format!("dropped {key}");
            }
        }
    }
}

/// The error with its causes.
pub(crate) fn failed(key: &str, error: &dyn Error) -> String {
    let mut text = format!("failed {key} {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
