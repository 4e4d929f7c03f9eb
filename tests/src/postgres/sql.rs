//! Statements of a test, on a connection of their own.

use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// How long the server may take to open the connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Runs these statements, and returns what they select: a line for a row, with `|` between the columns.
///
/// It has a thread of its own, because its caller may be a task.
pub(super) fn run(url: &str, statements: &str) -> Result<String, String> {
    let run = || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| error.to_string())?.block_on(ask(url, statements))
    };
    thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|_| Err("the thread panicked".to_owned()))
}

async fn ask(url: &str, statements: &str) -> Result<String, String> {
    let opened = timeout(CONNECT_LIMIT, tokio_postgres::connect(url, NoTls)).await;
    let (client, connection) = opened.map_err(|late| late.to_string())?.map_err(text)?;
    let connection = tokio::spawn(connection);
    let answer = client.simple_query(statements).await.map_err(text);
    drop(client);
    // The server has the goodbye before the next statement of the test, which may drop the database.
    _ = connection.await;
    Ok(answer?.iter().filter_map(line).collect())
}

fn line(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    let columns: Vec<_> = (0..row.len()).map(|at| row.get(at).unwrap_or_default()).collect();
    Some(columns.join("|") + "\n")
}

fn text(error: tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}
