//! The memory that a lock takes on the server.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::AT_ONCE;
use crate::{Failure, Meter, Verbs};

/// How long a server may take to finish its other work: to grow its tables and to shrink its buffers.
const SETTLE: Duration = Duration::from_millis(300);

/// Bytes for each name.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Room {
    /// While the name is locked.
    pub held: f64,
    /// After its release.
    pub released: f64,
}

impl Room {
    /// Encodes it for another process.
    pub(crate) fn to_json(self) -> Value {
        json!({ "held": self.held, "released": self.released })
    }

    /// Decodes it from another process.
    pub(crate) fn from_json(room: &Value) -> Result<Self, Failure> {
        let bytes = |name: &str| room[name].as_f64().ok_or("a room without bytes");
        Ok(Self { held: bytes("held")?, released: bytes("released")? })
    }
}

/// Locks and releases this many names, on an otherwise empty server.
///
/// # Errors
///
/// Those of the client; and if the server does not answer.
pub async fn memory<V: Verbs>(client: Arc<V>, url: String, names: usize) -> Result<Room, Failure> {
    let mut meter = Meter::at(&url)?;
    // A warm-up: buffers grow and scripts are loaded.
    for warm_up in 0..4 {
        let claims = claims(&*client, &format!("warm-up:{warm_up}"), AT_ONCE)?;
        acquire(&*client, &claims).await?;
        release(&*client, &claims).await?;
    }
    let claims = claims(&*client, "memory", names)?;
    let before = used(&mut meter).await?;
    acquire(&*client, &claims).await?;
    let held = used(&mut meter).await?;
    release(&*client, &claims).await?;
    let released = used(&mut meter).await?;
    let each = |bytes: f64| (bytes - before) / names as f64;
    Ok(Room { held: each(held), released: each(released) })
}

fn claims<V: Verbs>(client: &V, prefix: &str, count: usize) -> Result<Vec<V::Claim>, Failure> {
    (0..count).map(|name| client.claim(&format!("{prefix}:{name:05}"))).collect()
}

async fn acquire<V: Verbs>(client: &V, claims: &[V::Claim]) -> Result<(), Failure> {
    for claims in claims.chunks(AT_ONCE) {
        try_join_all(claims.iter().map(|claim| client.acquire(claim))).await?;
    }
    Ok(())
}

async fn release<V: Verbs>(client: &V, claims: &[V::Claim]) -> Result<(), Failure> {
    for claims in claims.chunks(AT_ONCE) {
        try_join_all(claims.iter().map(|claim| client.release(claim))).await?;
    }
    Ok(())
}

/// How many bytes the server has allocated.
async fn used(meter: &mut Meter) -> Result<f64, Failure> {
    tokio::time::sleep(SETTLE).await;
    Ok(meter.account()?.memory as f64)
}

#[cfg(test)]
mod tests {
    use lock_tests::RedisServer;

    use super::*;
    use crate::contestants::Plain;

    #[tokio::test]
    async fn what_is_released_takes_less_room() {
        let server = RedisServer::start();
        let client = Arc::new(Plain::connect(&server.url()).await.unwrap());
        let room = memory(client, server.url(), 2_000).await.unwrap();
        assert!(room.held > 50.0 && room.released < room.held, "{room:?}");
        assert_eq!(Room::from_json(&room.to_json()).unwrap(), room);
    }
}
