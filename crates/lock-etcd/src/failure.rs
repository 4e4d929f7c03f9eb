//! What an error of etcd means to a caller. Pure.

use std::error::Error as StdError;

use lock_core::{Error, ErrorKind};
use tonic::transport::Uri;
use tonic::{Code, Status};

/// Why a call has failed.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// A lease that the call names is over. Nothing was done.
    pub(crate) lease_is_over: bool,
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { error, lease_is_over: false }
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        let lease_is_over = status.code() == Code::NotFound && status.message().contains("lease");
        Self { error: of(status), lease_is_over }
    }
}

/// Why a connection was not opened. A certificate that is not trusted is for a person to change; what else there is may
/// pass.
pub(crate) fn connecting(error: tonic::transport::Error, member: &Uri) -> Error {
    if is_about_trust(&error) {
        let message = format!("no trust between this client and etcd at {member}");
        return Error::with_source(ErrorKind::Denied, message, error);
    }
    let message = format!("no connection to etcd at {member}");
    Error::with_source(ErrorKind::Unreachable, message, error)
}

/// Whether the other end showed a certificate that is not trusted, or did not trust that of this client. The library of
/// TLS says so in words alone.
fn is_about_trust(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let words = error.to_string();
        if words.contains("invalid peer certificate") || words.contains("received fatal alert") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The error of a lock for one of etcd.
pub(crate) fn of(status: Status) -> Error {
    let kind = kind(status.code(), status.message());
    let message = match kind {
        ErrorKind::Unreachable => "no connection to etcd".to_owned(),
        ErrorKind::Timeout => "no answer from etcd in time".to_owned(),
        _ if wants_user(&status) => "etcd has users, and this client does not log in".to_owned(),
        _ => format!("etcd refuses: {}", status.message()),
    };
    Error::with_source(kind, message, status)
}

/// The kind of a failure with this code and message.
fn kind(code: Code, message: &str) -> ErrorKind {
    match code {
        Code::Unavailable if message.contains("timed out") => ErrorKind::Timeout,
        // It has no leader, is changing it, or is stopping.
        Code::Unavailable if message.starts_with("etcdserver:") => ErrorKind::NotReady,
        Code::Unavailable | Code::Cancelled | Code::Aborted => ErrorKind::Unreachable,
        Code::DeadlineExceeded => ErrorKind::Timeout,
        // Too many requests, or no space for the data.
        Code::ResourceExhausted | Code::DataLoss => ErrorKind::NotReady,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Denied,
        Code::InvalidArgument if message.contains("authentication failed") => ErrorKind::Denied,
        Code::InvalidArgument if message.contains(NO_USER) => ErrorKind::Denied,
        // The rights have changed twice during the request. The next request logs in again.
        Code::InvalidArgument if message.contains(OLD_RIGHTS) => ErrorKind::NotReady,
        Code::Unimplemented => ErrorKind::Unsupported,
        // The transport says so when a stream breaks in the middle of an answer.
        Code::Internal | Code::Unknown if is_of_the_transport(message) => ErrorKind::Unreachable,
        Code::FailedPrecondition if message.contains("not leader") => ErrorKind::NotReady,
        // The leader hands its lead to another member. It has not begun the request.
        Code::Unknown if message.contains("raft proposal dropped") => ErrorKind::NotReady,
        _ => ErrorKind::Other,
    }
}

fn is_of_the_transport(message: &str) -> bool {
    let signs = ["h2", "transport", "connection", "stream", "Missing response message"];
    signs.iter().any(|sign| message.contains(sign))
}

/// Whether a connection on which a call failed so should be given up: it is broken, or its member cannot serve.
pub(crate) fn ends_connection(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout)
        || error.kind() == ErrorKind::NotReady && says_no_leader(error)
}

fn says_no_leader(error: &Error) -> bool {
    status_of(error).is_some_and(|status| status.code() == Code::Unavailable)
}

/// Whether the store has no room. If etcd answers so at once, it never carries the request out. If other changes took the
/// room while the request was under way, etcd carries the request out, and then answers so.
pub(crate) fn is_about_room(error: &Error) -> bool {
    let says_so = |status: &Status| status.message().contains("database space exceeded");
    status_of(error).is_some_and(|it| it.code() == Code::ResourceExhausted && says_so(it))
}

fn status_of(error: &Error) -> Option<&Status> {
    StdError::source(error).and_then(|it| it.downcast_ref::<Status>())
}

/// What etcd says to a client that has not authenticated.
const NO_USER: &str = "user name is empty";

/// What etcd says if the rights have changed since the client authenticated.
const OLD_RIGHTS: &str = "revision of auth store is old";

/// Whether a user has to authenticate for the first time: the cluster had no users when the connection was opened.
pub(crate) fn wants_user(status: &Status) -> bool {
    status.code() == Code::InvalidArgument && status.message().contains(NO_USER)
}

/// Whether the user has to authenticate again.
pub(crate) fn wants_new_token(status: &Status) -> bool {
    let message = status.message();
    match status.code() {
        Code::Unauthenticated => message.contains("invalid auth token"),
        Code::InvalidArgument => message.contains(OLD_RIGHTS),
        _ => false,
    }
}

/// The connection that a request needs has ended.
pub(crate) fn disconnected() -> Error {
    Error::new(ErrorKind::Unreachable, "the connection to etcd has ended")
}

/// No answer came in time.
pub(crate) fn timeout() -> Error {
    Error::new(ErrorKind::Timeout, "no answer from etcd in time")
}

/// The server said something that this client does not understand.
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
        let passing = [
            (Code::Unavailable, "error reading from server"),
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::ResourceExhausted, "etcdserver: too many requests"),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            (Code::DeadlineExceeded, ""),
            (Code::Cancelled, ""),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old"),
            (Code::Unknown, "transport error"),
            (Code::Unknown, "raft proposal dropped"),
            (Code::Internal, "h2 protocol error: error reading a body from connection"),
        ];
        for (code, message) in passing {
            let error = of(Status::new(code, message));
            assert!(error.is_retryable(), "{code:?}: {message}");
        }
        let lasting = [
            (Code::PermissionDenied, "etcdserver: permission denied", ErrorKind::Denied),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                ErrorKind::Denied,
            ),
            (Code::InvalidArgument, "etcdserver: user name is empty", ErrorKind::Denied),
            (Code::InvalidArgument, "etcdserver: request is too large", ErrorKind::Other),
            (Code::Unimplemented, "unknown service", ErrorKind::Unsupported),
        ];
        for (code, message, kind) in lasting {
            assert_eq!(of(Status::new(code, message)).kind(), kind, "{message}");
        }
    }

    #[test]
    fn a_client_without_a_user_is_told_what_it_lacks() {
        let status = Status::invalid_argument("etcdserver: user name is empty");
        assert!(wants_user(&status) && !wants_new_token(&status));
        assert_eq!(of(status).to_string(), "etcd has users, and this client does not log in");
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_told_from_a_connection_that_breaks() {
        let about = |words: &'static str| {
            let cause = std::io::Error::other(words);
            is_about_trust(&Error::with_source(ErrorKind::Other, "transport error", cause))
        };
        assert!(about("invalid peer certificate: UnknownIssuer"));
        assert!(about("received fatal alert: CertificateRequired"));
        assert!(!about("connection refused"));
    }

    #[test]
    fn a_member_without_a_leader_is_left() {
        let left = |code, message| ends_connection(&of(Status::new(code, message)));
        assert!(left(Code::Unavailable, "etcdserver: no leader"));
        assert!(left(Code::Unavailable, "connection refused"));
        assert!(left(Code::DeadlineExceeded, ""));
        assert!(!left(Code::ResourceExhausted, "etcdserver: too many requests"));
        assert!(!left(Code::PermissionDenied, ""));
    }

    #[test]
    fn a_full_store_is_told_from_a_busy_one() {
        let is_full = |code, message| is_about_room(&of(Status::new(code, message)));
        assert!(is_full(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"));
        assert!(!is_full(Code::ResourceExhausted, "etcdserver: too many requests"));
        assert!(!is_full(Code::Unavailable, "database space exceeded"));
    }

    #[test]
    fn a_lease_that_is_over_is_known() {
        let fault = Fault::from(Status::not_found("etcdserver: requested lease not found"));
        assert!(fault.lease_is_over);
        assert!(!Fault::from(Status::not_found("etcdserver: key")).lease_is_over);
        assert!(wants_new_token(&Status::unauthenticated("etcdserver: invalid auth token")));
        assert!(!wants_new_token(&Status::permission_denied("etcdserver: permission denied")));
    }
}
