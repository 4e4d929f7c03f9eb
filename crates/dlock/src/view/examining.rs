//! `dlock doctor`: the problems of a store.

use lock_any::doctor::{Finding, Report, Severity};

/// The escape sequences of a severity: red, yellow, magenta, and none.
fn color(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "\x1b[1;31m",
        Severity::Warning => "\x1b[1;33m",
        Severity::Unknown => "\x1b[1;35m",
        _ => "\x1b[1m",
    }
}

/// The report for people.
pub(crate) fn text(report: &Report, has_colors: bool) -> String {
    if !has_colors {
        return format!("{report}\n");
    }
    let mut text = report.head();
    for Finding { severity, code, server, finding, reason, remedy, .. } in &report.findings {
        let paint = color(*severity);
        text.push_str(&format!("\n{paint}{severity}: {code}\x1b[0m at {server}\n  {finding}\n"));
        text.push_str(&format!("  \x1b[2mwhy:\x1b[0m {reason}\n  \x1b[2mdo:\x1b[0m  {remedy}\n"));
    }
    match report.worst() {
        Some(worst) => {
            let paint = color(worst);
            let count = report.findings.len();
            text.push_str(&format!("\nfindings: {count}, worst: {paint}{worst}\x1b[0m\n"));
        }
        None => text.push_str("\nfindings: 0\n"),
    }
    text
}

/// The report for machines, on one line.
pub(crate) fn json(report: &Report) -> String {
    let worst = report.worst();
    let value = serde_json::json!({
        "worst": worst, "servers": report.servers, "store": report.store, "findings": report.findings,
    });
    format!("{value}\n")
}

/// The exit code of a report, as the README lists it.
pub(crate) fn code(worst: Option<Severity>) -> u8 {
    match worst {
        None | Some(Severity::Info) => 0,
        Some(Severity::Unknown) => 11,
        Some(Severity::Warning) => 12,
        // A severity that this version does not know may be a high one.
        Some(_) => 13,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn colors_change_no_word() {
        let report = lock_any::doctor::doctor("memory:").await.unwrap();
        let mut plain = text(&report, true);
        for escape in ["\x1b[0m", "\x1b[2m", "\x1b[1m"] {
            assert!(plain.contains(escape), "{plain:?}");
            plain = plain.replace(escape, "");
        }
        assert_eq!(plain, text(&report, false));
        let value: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
        assert_eq!(
            (&value["worst"], &value["findings"][0]["code"]),
            (&"info".into(), &"memory".into())
        );
        assert_eq!(code(report.worst()), 0);
    }

    #[test]
    fn a_worse_finding_has_a_higher_code() {
        use Severity::{Critical, Info, Unknown, Warning};
        let all = [None, Some(Info), Some(Unknown), Some(Warning), Some(Critical)];
        assert!(all.map(code).is_sorted());
    }
}
