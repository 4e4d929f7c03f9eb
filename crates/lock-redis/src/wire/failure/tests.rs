//! What servers say when they fail, and which error follows.

use redis::Value;

use super::*;
use crate::wire::{Endpoint, garbage};

fn refusal(code: &'static str, text: &'static str) -> Error {
    let address = Address::Tcp { host: "redis.example".into(), port: 6379 };
    Refusal { code, text }.convert(&Sent::to(&address))
}

#[test]
fn every_code_has_a_kind() {
    use ErrorKind::*;
    for (code, kind) in [
        ("OOM", OutOfMemory),
        ("LOADING", NotReady),
        ("BUSY", NotReady),
        ("READONLY", NotReady),
        ("MASTERDOWN", NotReady),
        ("CLUSTERDOWN", NotReady),
        ("TRYAGAIN", NotReady),
        ("UNBLOCKED", NotReady),
        ("NOREPLICAS", NotReady),
        ("MISCONF", NotReady),
        ("NOPERM", Denied),
        ("NOAUTH", Denied),
        ("WRONGPASS", Denied),
        ("WRONGTYPE", ForeignKey),
        ("LOCKFENCE", ForeignKey),
        ("LOCKVERSION", ForeignKey),
        ("LOCKCLOCK", NotReady),
        ("LOCKQUEUE", QueueFull),
        ("LOCKCELL", ForeignKey),
        ("LOCKKIND", ForeignKey),
        ("LOCKPERMITS", InvalidConfig),
        ("LOCKTAKE", InvalidConfig),
        ("LOCKCLOSED", Closed),
        ("LOCKOVER", NotHeld),
        ("LOCKVOUCH", InvalidConfig),
        ("LOCKNODE", ForeignKey),
        ("LOCKINFO", Denied),
        ("LOCKCLUSTER", Unsupported),
        ("MOVED", Unsupported),
        ("ERR", Other),
    ] {
        assert_eq!(refusal(code, "").kind(), kind, "{code}");
    }
}

#[test]
fn errors_without_a_code_are_known_by_their_text() {
    use ErrorKind::*;
    for (text, kind) in [
        ("ACL failure in script: User x has no permissions", Denied),
        ("The user executing the script can't run this command or subcommand", Denied),
        ("this user has no permissions to run the 'select' command", Denied),
        ("max number of clients reached", NotReady),
        ("DB index is out of range", InvalidConfig),
        ("unknown command 'EVALSHA', with args beginning with: 'a'", Unsupported),
    ] {
        assert_eq!(refusal("ERR", text).kind(), kind, "{text}");
    }
}

/// The wrapping as Redis 5 and 6 do it.
#[test]
fn what_goes_wrong_inside_a_script_is_known_by_its_own_code() {
    use ErrorKind::*;
    let address = Address::Tcp { host: "redis.example".into(), port: 6379 };
    for (inner, kind, demoted) in [
        ("-READONLY You can't write against a read only replica.", NotReady, true),
        ("READONLY You can't write against a read only replica.", NotReady, true),
        ("-OOM command not allowed when used memory > 'maxmemory'.", OutOfMemory, false),
        ("OOM command not allowed when used memory > 'maxmemory'.", OutOfMemory, false),
        ("WRONGTYPE Operation against a key holding the wrong kind", ForeignKey, false),
        ("-MISCONF Redis is configured to save RDB snapshots", NotReady, false),
        ("-NOPERM this user has no permissions to run the 'set' command", Denied, false),
        ("The user executing the script can't run this command", Denied, false),
    ] {
        let text = format!(
            "Error running script (call to f_0123abcd): @user_script:4: @user_script: 4: {inner}"
        );
        let caught = format!("4: {inner}");
        for (code, text) in [("ERR", &text), ("@user_script:", &caught)] {
            let failure = Refusal::new(code, text).failure(&Sent::to(&address));
            assert_eq!(matches!(failure, Failure::Demoted(_)), demoted, "{failure:?}");
            let error = failure.into_error();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.to_string().contains("f_0123abcd"), "{error}");
        }
    }
    for other in ["Error running script (call to f_0)", "no @user_script: 4: -READONLY at all"] {
        assert_eq!(Refusal::new("ERR", other).code, "ERR");
    }
}

#[test]
fn what_was_sent_is_not_quoted() {
    for text in [
        "unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'me' 'hunter2' ",
        "unknown command `AUTH` with args `hunter2`",
    ] {
        let error = refusal("ERR", text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert!(error.to_string().starts_with("redis.example:6379 does not know a command: "));
    }
    let quoted = " with args beginning with: 'hunter2' 'me'";
    assert_eq!(Refusal::new("@user_script:", quoted).code, "@user_script:");
}

#[test]
fn a_server_that_asks_for_what_the_greeting_brings_does_not_know_the_greeting() {
    let greeted = |url: &str| {
        let Value::ServerError(error) = garbage::refusal("NOAUTH no") else { panic!() };
        no_greeting(&Sent::login(&Endpoint::parse(url).unwrap()), error.into())
    };
    for url in ["redis://:hunter2@redis.example", "redis://me:hunter2@redis.example"] {
        let Failure::NoResp3(error) = greeted(url) else { panic!("{url}") };
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    let Failure::Error(error) = greeted("redis://redis.example") else { panic!() };
    assert_eq!(error.kind(), ErrorKind::Denied);
}

#[test]
fn what_is_hidden_does_not_change_what_it_means() {
    for name in ["OOM", "permissions", "READONLY"] {
        let endpoint = Endpoint::parse(&format!("redis://{name}:no@redis.example")).unwrap();
        let refused = |line| {
            let Value::ServerError(error) = garbage::refusal(line) else { panic!() };
            refused(&Sent::login(&endpoint), &error).into_error()
        };
        assert_eq!(refused("OOM command not allowed").kind(), ErrorKind::OutOfMemory);
        assert_eq!(refused("READONLY no").kind(), ErrorKind::NotReady);
        let denied = refused("ERR ACL failure in script: User x has no permissions");
        assert_eq!(denied.kind(), ErrorKind::Denied);
        assert!(!refused(&format!("ERR {name} it is")).to_string().contains(name));
    }
}
