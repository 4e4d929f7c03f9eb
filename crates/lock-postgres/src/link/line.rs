//! One connection for verbs, which is opened again when it breaks.

use std::sync::Arc;

use futures::StreamExt;
use lock_core::Error;
use tokio::sync::{Mutex, RwLock};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::{Attempts, Dial};
use crate::failure;

/// A statement with its parameters. It has no name, so that any connection of a pooler can run it.
pub(crate) struct Statement {
    sql: &'static str,
    params: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Statement {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self { sql, params: Vec::new() }
    }

    #[must_use]
    pub(crate) fn with(mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> Self {
        self.params.push((Box::new(value), kind));
        self
    }

    #[must_use]
    pub(crate) fn bytes(self, value: Vec<u8>) -> Self {
        self.with(value, Type::BYTEA)
    }

    #[must_use]
    pub(crate) fn text(self, value: String) -> Self {
        self.with(value, Type::TEXT)
    }

    #[must_use]
    pub(crate) fn int(self, value: i32) -> Self {
        self.with(value, Type::INT4)
    }

    #[must_use]
    pub(crate) fn long(self, value: i64) -> Self {
        self.with(value, Type::INT8)
    }

    #[must_use]
    pub(crate) fn bool(self, value: bool) -> Self {
        self.with(value, Type::BOOL)
    }
}

/// One connection. Statements run in the order in which they were asked.
pub(crate) struct Line {
    dial: Arc<Dial>,
    state: Mutex<State>,
    /// Shared by single statements. A statement that concerns several lines has all of them alone.
    pub(crate) gate: RwLock<()>,
}

struct State {
    client: Option<Arc<Client>>,
    attempts: Attempts,
}

impl Line {
    pub(crate) fn new(dial: Arc<Dial>) -> Self {
        let state = Mutex::new(State { client: None, attempts: Attempts::new() });
        Self { dial, state, gate: RwLock::new(()) }
    }

    /// Runs a statement. After a retryable error it may have run.
    pub(crate) async fn ask(&self, statement: &Statement) -> Result<Vec<Row>, Error> {
        let mut used = None;
        let asking = async {
            let client = self.client().await?;
            used = Some(Arc::clone(&client));
            let params = statement.params.iter().map(|(value, kind)| (&**value as _, kind.clone()));
            let params: Vec<(&(dyn ToSql + Sync), Type)> = params.collect();
            client.query_typed(statement.sql, &params).await.map_err(|error| {
                let ends = failure::ends_connection(&error);
                (failure::of(error), ends)
            })
        };
        let limit = self.dial.limit();
        let (error, ends) = match tokio::time::timeout(limit, asking).await {
            Ok(Ok(rows)) => return Ok(rows),
            Ok(Err(failed)) => failed,
            Err(_) => (failure::timeout(), true),
        };
        if let Some(used) = used.filter(|_| ends) {
            self.leave(&used).await;
        }
        Err(error)
    }

    /// The connection, which is opened if there is none. The error says whether a connection is to be left.
    async fn client(&self) -> Result<Arc<Client>, (Error, bool)> {
        let mut state = self.state.lock().await;
        if let Some(client) = state.client.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        state.client = None;
        state.attempts.check().map_err(|error| (error, false))?;
        let opened = self.dial.open().await;
        state.attempts.note(&opened);
        match opened {
            Ok((client, mut messages)) => {
                // The task ends with the connection, which ends when the last request on it does.
                tokio::spawn(async move { while let Some(Ok(_)) = messages.next().await {} });
                let client = Arc::new(client);
                state.client = Some(Arc::clone(&client));
                Ok(client)
            }
            Err(error) => {
                tracing::debug!(%error, "no connection to the database");
                Err((error, false))
            }
        }
    }

    /// Gives up a connection. Requests that are under way on it end as they may.
    async fn leave(&self, used: &Arc<Client>) {
        let mut state = self.state.lock().await;
        if state.client.as_ref().is_some_and(|client| Arc::ptr_eq(client, used)) {
            state.client = None;
        }
    }
}
