//! Keyspace notifications: whether the server sends them, and can be made to.

use lock_core::{Error, ErrorKind};

use crate::link::Live;
use crate::options::Notifications;
use crate::wire::{Command, Failure, Reply};

const PARAMETER: &str = "notify-keyspace-events";
/// `K`: by key. `g`: deletion and renaming. `$`: overwriting. `x`: expiry. `e`: eviction.
const NEEDED: &str = "Kg$xe";

/// Finds out whether to subscribe to the events of keys, and enables the events if the options say
/// so.
pub(super) async fn prepare(live: &Live, mode: Notifications) -> Result<bool, Error> {
    if mode == Notifications::Off {
        return Ok(false);
    }
    let flags = match flags(live).await {
        Ok(flags) => flags,
        Err(error) if error.is_retryable() => return Err(error),
        Err(error) if mode == Notifications::Require => {
            let message = "keyspace notifications are required, but the server does not let us ask";
            return Err(Error::with_source(ErrorKind::Unsupported, message, error));
        }
        // The server may send them even so, and listening is cheap.
        Err(_) => return Ok(true),
    };
    if missing(&flags).is_empty() {
        return Ok(true);
    }
    match mode {
        Notifications::Require => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "keyspace notifications are required, but {PARAMETER} is {flags:?}, not {NEEDED:?}"
            ),
        )),
        Notifications::Enable => enable(live, &flags).await,
        Notifications::IfPresent | Notifications::Off => Ok(useful(&flags)),
    }
}

/// The flags that the server has set.
pub(crate) async fn flags(live: &Live) -> Result<String, Error> {
    read(ask(live, &["CONFIG", "GET", PARAMETER]).await?)
}

/// Reads nothing, or the parameter and its value.
fn read(reply: Reply) -> Result<String, Error> {
    let Reply::List(pair) = reply else { return Err(nonsense()) };
    match pair.as_slice() {
        [] => Err(Error::new(ErrorKind::Unsupported, "the server has no keyspace notifications")),
        [Reply::Text(name), Reply::Text(flags)]
            if name.eq_ignore_ascii_case(PARAMETER.as_bytes()) =>
        {
            // The flags are letters. We know a few of them, and may send them back.
            let flags = String::from_utf8(flags.clone()).ok();
            flags.filter(|it| it.chars().all(|it| it.is_ascii_graphic())).ok_or_else(nonsense)
        }
        _ => Err(nonsense()),
    }
}

fn nonsense() -> Error {
    Error::new(ErrorKind::Protocol, "CONFIG GET was answered with nonsense")
}

/// Adds the missing flags to those that the server has set.
async fn enable(live: &Live, flags: &str) -> Result<bool, Error> {
    let wanted = format!("{flags}{}", missing(flags));
    match ask(live, &["CONFIG", "SET", PARAMETER, &wanted]).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_retryable() => Err(error),
        Err(error) => {
            tracing::warn!(%error, "keyspace notifications cannot be enabled");
            Ok(useful(flags))
        }
    }
}

/// The flags that are needed and not set. `A` stands for every kind of event.
pub(crate) fn missing(flags: &str) -> String {
    let set = |flag| flags.contains(flag) || (flag != 'K' && flags.contains('A'));
    NEEDED.chars().filter(|flag| !set(*flag)).collect()
}

/// Whether any event that we understand is sent.
fn useful(flags: &str) -> bool {
    flags.contains('K') && flags.contains(['g', '$', 'x', 'e', 'A'])
}

async fn ask(live: &Live, words: &[&str]) -> Result<Reply, Error> {
    live.call(&Command::words(words)).await.map_err(Failure::into_error)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    #[test]
    fn only_what_is_missing_is_added() {
        assert_eq!(missing(""), "Kg$xe");
        assert_eq!(missing("Elg"), "K$xe");
        assert_eq!(missing("AE"), "K");
        assert_eq!(missing("AK"), "");
    }

    #[test]
    fn events_by_key_of_some_kind_are_useful() {
        assert!(useful("Kg") && useful("xK") && useful("AKE"));
        assert!(!useful("") && !useful("gxe") && !useful("Kl"));
    }

    #[test]
    fn flags_are_read_and_a_server_without_any_is_told_apart() {
        let text = |text: &str| Reply::Text(text.into());
        let list = |flags: &str| Reply::List(vec![text(PARAMETER), text(flags)]);
        assert_eq!(read(list("AKE")).unwrap(), "AKE");
        assert_eq!(read(list("")).unwrap(), "");
        assert_eq!(read(Reply::List(Vec::new())).unwrap_err().kind(), ErrorKind::Unsupported);
        for bad in [list("K\r\n"), Reply::List(vec![text("Kgx")]), Reply::Nil, text("AKE")] {
            assert_eq!(read(bad).unwrap_err().kind(), ErrorKind::Protocol);
        }
    }

    proptest! {
        #[test]
        fn flags_are_added_to_once(flags in "[A-Za-z$]{0,8}", reply in garbage::replies()) {
            let wanted = format!("{flags}{}", missing(&flags));
            prop_assert!(missing(&wanted).is_empty() && useful(&wanted));
            if let Ok(flags) = read(reply) {
                prop_assert!(flags.chars().all(|it| it.is_ascii_graphic()));
            }
        }
    }
}
