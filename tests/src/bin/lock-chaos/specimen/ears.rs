//! Hears the messages of a server for waiters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use super::flaw::Flaw;
use super::link::Link;

/// The pause after a connection has failed.
const PAUSE: Duration = Duration::from_millis(20);

/// One connection for everything that a client waits for.
pub(super) struct Ears {
    wanted: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
    orders: mpsc::UnboundedSender<Order>,
    limit: Duration,
}

enum Order {
    Begin(String, oneshot::Sender<()>),
    End(String),
}

/// Listens to one channel until it is dropped.
pub(super) struct Listener<'a> {
    ears: &'a Ears,
    channel: String,
    /// Notified of each message, and of each new connection.
    pub(super) told: Arc<Notify>,
}

impl Ears {
    pub(super) fn open(link: Arc<Link>, flaw: Flaw) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let wanted = Arc::default();
        let limit = link.limit();
        tokio::spawn(hear(link, flaw, Arc::clone(&wanted), inbox));
        Self { wanted, orders, limit }
    }

    /// Returns once the server knows the subscription. If the server cannot be reached, the listener
    /// is notified as soon as it can.
    pub(super) async fn listen(&self, channel: String) -> Listener<'_> {
        let told = Arc::default();
        lock(&self.wanted).insert(channel.clone(), Arc::clone(&told));
        let (done, is_done) = oneshot::channel();
        let listener = Listener { ears: self, channel: channel.clone(), told };
        _ = self.orders.send(Order::Begin(channel, done));
        _ = timeout(self.limit, is_done).await;
        listener
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        lock(&self.ears.wanted).remove(&self.channel);
        _ = self.ears.orders.send(Order::End(std::mem::take(&mut self.channel)));
    }
}

type Wanted = Mutex<HashMap<String, Arc<Notify>>>;

async fn hear(
    link: Arc<Link>,
    flaw: Flaw,
    wanted: Arc<Wanted>,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    while !orders.is_closed() {
        _ = hear_once(&link, flaw, &wanted, &mut orders).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Listens on one connection. Returns when the connection has ended.
async fn hear_once(
    link: &Link,
    flaw: Flaw,
    wanted: &Wanted,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> Option<()> {
    let limit = link.limit();
    let connection = timeout(limit, link.client().get_async_pubsub()).await.ok()?.ok()?;
    let (mut sink, mut messages) = connection.split();
    let channels: Vec<String> = lock(wanted).keys().cloned().collect();
    for channel in channels {
        timeout(limit, sink.subscribe(&channel)).await.ok()?.ok()?;
        // Messages without a listener are not repeated.
        if flaw != Flaw::NoRecheck {
            tell(wanted, &channel);
        }
    }
    loop {
        tokio::select! {
            message = messages.next() => tell(wanted, message?.get_channel_name()),
            order = orders.recv() => match order? {
                Order::Begin(channel, done) => {
                    timeout(limit, sink.subscribe(&channel)).await.ok()?.ok()?;
                    _ = done.send(());
                }
                Order::End(channel) => {
                    // A task may want the channel again by now.
                    if !lock(wanted).contains_key(&channel) {
                        timeout(limit, sink.unsubscribe(&channel)).await.ok()?.ok()?;
                    }
                }
            },
        }
    }
}

fn tell(wanted: &Wanted, channel: &str) {
    if let Some(told) = lock(wanted).get(channel) {
        told.notify_one();
    }
}

fn lock(wanted: &Wanted) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner)
}
