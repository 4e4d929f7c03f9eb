//! What an error of the driver means to a caller. Pure.

use lock_core::{Error, ErrorKind};
use tokio_postgres::error::SqlState;

/// The error of a lock for one of the driver.
pub(crate) fn of(error: tokio_postgres::Error) -> Error {
    let Some(said) = error.as_db_error() else {
        return Error::with_source(ErrorKind::Unreachable, "no connection to the database", error);
    };
    if said.code().code() == "LK009" || said.message().contains("startup parameter") {
        let message = "a pooler is in between, and takes no settings of a session: let the URL lead to the server itself, \
                       and name the pooler by `pooler`; or say `without_direct_connection`, in a URL `direct=false`";
        return Error::with_source(ErrorKind::InvalidConfig, message, error);
    }
    let kind = kind(said.code());
    let message = match kind {
        ErrorKind::InvalidConfig if is_of_the_schema(said.code()) => {
            "the database has no schema for locks, or an older one: call `init`".to_owned()
        }
        _ => format!("the database refuses: {}", said.message()),
    };
    if said.code().code().starts_with("LK") {
        return Error::new(kind, said.message().to_owned());
    }
    Error::with_source(kind, message, error)
}

/// The kind of a failure with this code.
pub(crate) fn kind(code: &SqlState) -> ErrorKind {
    match code.code() {
        "LK001" => ErrorKind::NotHeld,
        "LK002" => ErrorKind::QueueFull,
        // Another number of permits; another level of isolation; what no client sends; a session behind a pooler.
        "LK003" | "LK006" | "LK007" | "LK009" => ErrorKind::InvalidConfig,
        "LK004" => ErrorKind::Closed,
        "LK005" => ErrorKind::ForeignKey,
        // statement_timeout, or a request to cancel; a request that came later than its client waits
        "57014" | "LK008" => ErrorKind::Timeout,
        "53200" => ErrorKind::OutOfMemory,
        // Read-only: a standby. Serialization and deadlock: another transaction was in the way. A lock that was not
        // available.
        "25006" | "40001" | "40P01" | "55P03" => ErrorKind::NotReady,
        _ if is_of_the_schema(code) => ErrorKind::InvalidConfig,
        code => match &code[..2.min(code.len())] {
            // The connection is lost, or the server ends it.
            "08" | "57" => ErrorKind::Unreachable,
            // Too few resources: connections, disk, memory.
            "53" | "58" => ErrorKind::NotReady,
            "28" | "42" => ErrorKind::Denied,
            "3D" => ErrorKind::InvalidConfig,
            _ => ErrorKind::Other,
        },
    }
}

/// The schema, a table, a function, a column or a type is missing.
fn is_of_the_schema(code: &SqlState) -> bool {
    matches!(code.code(), "3F000" | "42P01" | "42883" | "42703" | "42704")
}

/// Whether a connection on which a request failed is of no more use: it is broken, or leads to a server that cannot
/// write.
pub(crate) fn ends_connection(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none_or(|said| match said.code().code() {
        "57014" => false,
        // The next connection looks at the clock of the server again.
        "LK008" => true,
        code => code == "25006" || code.starts_with("57") || code.starts_with("08"),
    })
}

/// No answer came in time.
pub(crate) fn timeout() -> Error {
    Error::new(ErrorKind::Timeout, "no answer from the database in time")
}

/// Earlier requests have had no answer yet.
pub(crate) fn unanswered() -> Error {
    Error::new(ErrorKind::Timeout, "the database has not answered earlier requests")
}

/// The database said something that this client does not understand.
pub(crate) fn protocol(what: &'static str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("an answer that this client does not understand: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_retryable_and_what_a_person_must_change_is_not() {
        for code in [
            "57P01", "57P02", "57P03", "57014", "25006", "40001", "40P01", "53300", "08006",
            "53100",
        ] {
            assert!(kind(&SqlState::from_code(code)).is_retryable(), "{code}");
        }
        for code in [
            "28P01", "42501", "3F000", "42883", "3D000", "22003", "LK001", "LK002", "LK003",
            "LK006", "LK007", "LK009",
        ] {
            assert!(!kind(&SqlState::from_code(code)).is_retryable(), "{code}");
        }
        assert_eq!(kind(&SqlState::from_code("42501")), ErrorKind::Denied);
        assert_eq!(kind(&SqlState::from_code("42883")), ErrorKind::InvalidConfig);
        assert_eq!(kind(&SqlState::from_code("")), ErrorKind::Other);
    }
}
