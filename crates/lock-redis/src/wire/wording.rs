//! The wordings with which servers and proxies refuse a command.

use lock_core::ErrorKind;

/// The wordings of a refused command. There are as many wordings as there are proxies.
const REFUSALS: [&str; 16] = [
    "unknown",
    "unsupported",
    "not supported",
    "not support",
    "not allowed",
    "not permitted",
    "not available",
    "not implemented",
    "not enabled",
    "not recognized",
    "disallowed",
    "disabled",
    "denied",
    "forbidden",
    "prohibited",
    "blocked",
];

/// Whether an error of this kind concerns the command itself, which then did not run.
///
/// An error from within a script says so, and does not concern the call of that script.
pub(super) fn is_of_command(code: &str, text: &str, kind: ErrorKind) -> bool {
    if code == "NOPERM" {
        // The others concern keys and channels.
        return text.contains("permissions to run") || text.contains("command");
    }
    if !is_final(kind) || text.contains("user_script") || text.contains("running script") {
        return false;
    }
    let said = format!("{code} {text}").to_ascii_lowercase();
    let is_named = said.contains("command") || said.contains("eval");
    is_named && REFUSALS.into_iter().any(|refusal| said.contains(refusal))
}

/// Whether such an error may mean that the server never accepts the command.
pub(super) fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Denied | ErrorKind::Unsupported | ErrorKind::Other)
}
