//! The errors of servers, and the errors that follow.

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
        ("LOCKTERM", Denied),
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

#[test]
fn a_redirection_says_where_to_go() {
    let asked = Address::Tcp { host: "redis.example".into(), port: 6379 };
    let at = |host: &str, port| Some(Address::Tcp { host: host.into(), port });
    let failure = |code, text| Refusal::new(code, text).failure(&Sent::to(&asked));
    for (text, slot, address) in [
        ("3999 127.0.0.1:6381", 3999, at("127.0.0.1", 6381)),
        ("0 :7000", 0, at("redis.example", 7000)),
        ("16383 ::1:7000", 16383, at("::1", 7000)),
        ("7 redis.example:1", 7, at("redis.example", 1)),
        ("7 ?:1", 7, None),
    ] {
        let Failure::Moved(moved, error) = failure("MOVED", text) else { panic!("{text}") };
        assert_eq!(moved, Redirect { slot, address: address.clone() });
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let Failure::Asks(asks, _) = failure("ASK", text).of_keys(1) else { panic!("{text}") };
        assert_eq!(asks, moved);
        // No other server has all of several keys while they are moved.
        assert!(matches!(failure("ASK", text).of_keys(2), Failure::Moving(_)));
        assert!(matches!(failure("MOVED", text).of_keys(2), Failure::Moved(..)));
    }
    for text in ["", "7", "7 h", "7 h:x", "7 h:65536", "16384 h:1", "-1 h:1", "7 h:1 more", "x h:1"]
    {
        assert!(matches!(failure("MOVED", text), Failure::Error(_)), "{text}");
        assert!(matches!(failure("ASK", text), Failure::Error(_)), "{text}");
    }
}

#[test]
fn a_server_that_cannot_serve_now_did_not_run_the_request() {
    let asked = Address::Tcp { host: "redis.example".into(), port: 6379 };
    for code in ["CLUSTERDOWN", "MASTERDOWN", "LOADING"] {
        let failure = Refusal::new(code, "no").failure(&Sent::to(&asked));
        assert!(matches!(failure, Failure::Later(_)), "{failure:?}");
        // Within a script that ran it may mean something else.
        assert!(matches!(failure.of_one_that_ran(), Failure::Error(_)));
    }
}

/// The wrapping of Redis 5 and 6.
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

#[test]
fn an_alert_is_final_unless_it_is_about_trouble_that_passes() {
    let is_final = |alert: &str| is_final_alert(&format!("received fatal alert: {alert}"));
    for alert in ["CertificateRequired", "UnknownCA", "AccessDenied", "HandshakeFailure"] {
        assert!(is_final(alert), "{alert}");
    }
    for alert in ["InternalError", "BadRecordMac"] {
        assert!(!is_final(alert), "{alert}");
    }
    assert!(!is_final_alert("connection reset by peer"));
}
