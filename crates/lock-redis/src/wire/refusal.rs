//! The consequences when a server, or a proxy before it, does not accept a command.

use lock_core::{Error, ErrorKind};
use redis::ServerError;

use super::failure::{Failure, refused};
use super::sent::Sent;
use super::wording::is_final;

/// A server did not load a script. No script ran, so every error that is not about credentials or about the
/// state of the server means that the server loads no scripts.
pub(super) fn not_loaded(sent: &Sent<'_>, error: &ServerError) -> Failure {
    match refused(sent, error) {
        Failure::Error(error) if is_final(error.kind()) => Failure::NoCommand(error),
        failure => failure,
    }
}

/// The error for a server that accepts scripts in neither way.
pub(crate) fn neither([one, other]: [&str; 2], errors: [Error; 2]) -> Error {
    let [error, source] = errors;
    let is_denied = [&error, &source].iter().any(|it| it.kind() == ErrorKind::Denied);
    let kind = if is_denied { ErrorKind::Denied } else { error.kind() };
    let message = format!("scripts need {one} or {other}, and the server refuses both: {error}");
    Error::with_source(kind, message, source)
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;
    use crate::wire::{Address, garbage};

    fn parts(line: &str) -> ServerError {
        let Value::ServerError(error) = garbage::refusal(line) else { panic!("no error") };
        error
    }

    fn to<T>(said: impl Fn(&Sent<'_>) -> T) -> T {
        said(&Sent::to(&Address::Tcp { host: "redis.example".into(), port: 6379 }))
    }

    /// The wordings of servers and proxies, and the kinds of the errors for an app.
    const OF_COMMANDS: [(&str, ErrorKind); 10] = [
        ("NOPERM User locks has no permissions to run the 'evalsha' command", ErrorKind::Denied),
        (
            "NOPERM this user has no permissions to run the 'script' command or its subcommand",
            ErrorKind::Denied,
        ),
        ("ERR unknown command 'EVALSHA', with args beginning with: 'a'", ErrorKind::Unsupported),
        ("ERR unknown command `EVALSHA`, with args beginning with: `a`", ErrorKind::Unsupported),
        ("ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.", ErrorKind::Unsupported),
        ("ERR command 'SCRIPT' not allowed", ErrorKind::Unsupported),
        ("ERR unsupported command `evalsha`", ErrorKind::Unsupported),
        ("unsupported command 'script'", ErrorKind::Unsupported),
        ("ERR command 'EVALSHA' not support for normal user", ErrorKind::Unsupported),
        ("ERR EVALSHA is disabled", ErrorKind::Unsupported),
    ];

    #[test]
    fn a_command_that_is_not_taken_is_known_by_many_wordings() {
        for (line, kind) in OF_COMMANDS {
            let failure = to(|sent| refused(sent, &parts(line)));
            assert!(matches!(failure, Failure::NoCommand(_)), "{line}: {failure:?}");
            assert_eq!(failure.into_error().kind(), kind, "{line}");
        }
    }

    #[test]
    fn an_error_about_keys_or_the_state_of_the_server_is_no_such_refusal() {
        for line in [
            "NOPERM No permissions to access a key",
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Redis is configured to save. Commands that may modify the data set are disabled",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL",
            "ERR Error running script (call to f_0): @user_script:4: unknown command",
            "ERR unknown command called from script script: 0, on @user_script:1.",
            "ERR timeout",
            "LOADING Redis is loading the dataset in memory",
            "NOAUTH Authentication required.",
        ] {
            let failure = to(|sent| refused(sent, &parts(line)));
            assert!(!matches!(failure, Failure::NoCommand(_)), "{line}");
        }
    }

    #[test]
    fn a_script_that_can_never_load_is_refused_in_any_wording() {
        for (line, _) in OF_COMMANDS {
            let failure = to(|sent| not_loaded(sent, &parts(line)));
            assert!(matches!(failure, Failure::NoCommand(_)), "{line}");
        }
        let failure = to(|sent| not_loaded(sent, &parts("ERR ask your administrator")));
        assert!(matches!(failure, Failure::NoCommand(_)), "{failure:?}");
        for line in ["LOADING no", "BUSY no", "NOAUTH no", "OOM no", "MISCONF no"] {
            let failure = to(|sent| not_loaded(sent, &parts(line)));
            assert!(!matches!(failure, Failure::NoCommand(_)), "{line}");
        }
    }

    #[test]
    fn a_right_that_is_missing_shows_in_the_error_about_both() {
        let error = |kind, text: &'static str| Error::new(kind, text);
        for (kinds, kind) in [
            ([ErrorKind::Denied, ErrorKind::Unsupported], ErrorKind::Denied),
            ([ErrorKind::Unsupported, ErrorKind::Denied], ErrorKind::Denied),
            ([ErrorKind::Unsupported, ErrorKind::Unsupported], ErrorKind::Unsupported),
        ] {
            let errors = [error(kinds[0], "no loading"), error(kinds[1], "no text")];
            let both = neither(["SCRIPT LOAD", "EVAL"], errors);
            assert_eq!(both.kind(), kind);
            assert_eq!(
                both.to_string(),
                "scripts need SCRIPT LOAD or EVAL, and the server refuses both: no loading"
            );
            assert!(format!("{both:?}").contains("no text"));
        }
    }
}
