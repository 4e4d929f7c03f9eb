//! Tests of a check.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::{Finding, Severity};

/// A finding of a check by its code and severity, and the change of healthy facts that makes the finding appear. The
/// [example](enforce_findings#examples) of the test has one.
pub type FindingCase<F> = (&'static str, Severity, fn(&mut F));

/// Tests the findings of a check: each of them appears once with its cause, and has words. The table in the docs of the
/// check lists their codes with all their severities, and no other code but those that follow from other facts
/// (`elsewhere`).
///
/// `find` makes healthy facts, changes them, and returns the findings. Without a change there are none.
///
/// # Panics
///
/// If a finding or a row of the table is wrong or missing.
///
/// # Examples
///
/// ```
/// use lock_core::check::{Finding, Severity};
/// use lock_core::conformance::{FindingCase, enforce_findings};
///
/// // `include_str!` reads the file of a real check.
/// let docs = "//! | `fsync-off` | warning | the server does not wait for its disk |";
/// let cases: [FindingCase<bool>; 1] = [("fsync-off", Severity::Warning, |syncs| *syncs = false)];
/// enforce_findings(docs, &[], &cases, |change| {
///     let mut syncs = true;
///     change(&mut syncs);
///     let found = Finding::new(Severity::Warning, "fsync-off", "db.example:5432")
///         .because("`fsync` is off", "a crash forgets leases")
///         .remedy("set `fsync = on`");
///     (!syncs).then_some(found).into_iter().collect()
/// });
/// ```
pub fn enforce_findings<F>(
    docs: &str,
    elsewhere: &[&str],
    cases: &[FindingCase<F>],
    find: impl Fn(fn(&mut F)) -> Vec<Finding>,
) {
    assert_eq!(find(|_| ()), [], "healthy facts have no findings");
    for (code, severity, change) in cases {
        let found = find(*change);
        let mut fitting = found.iter().filter(|it| it.code == *code);
        let finding = fitting.next().unwrap_or_else(|| panic!("no {code}: {found:?}"));
        assert_eq!((finding.severity, fitting.count()), (*severity, 0), "{found:?}");
        let texts = [&finding.finding, &finding.reason, &finding.remedy];
        assert!(texts.iter().all(|it| !it.is_empty() && !it.contains('\n')), "{finding:?}");
    }
    let mut expected = BTreeMap::<_, BTreeSet<_>>::new();
    for (code, severity, _) in cases {
        expected.entry(*code).or_default().insert(*severity);
    }
    let mut documented = documented(docs);
    for code in elsewhere {
        assert!(documented.remove(code).is_some(), "no row for {code}");
    }
    assert_eq!(documented, expected, "the table in the docs, and the cases");
}

/// The codes in the table, with their severities.
fn documented(docs: &str) -> BTreeMap<&str, BTreeSet<Severity>> {
    use Severity::{Critical, Info, Unknown, Warning};
    let mut codes = BTreeMap::new();
    for row in docs.lines().filter_map(|line| line.strip_prefix("//! | `")) {
        let (code, rest) = row.split_once("` | ").expect("a code and a severity");
        let named = rest.split(" | ").next().unwrap_or_default();
        let is_named = |it: &Severity| named.contains(&it.to_string());
        let severities = [Info, Unknown, Warning, Critical].into_iter().filter(is_named).collect();
        assert!(codes.insert(code, severities).is_none(), "two rows for {code}");
    }
    codes
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const DOCS: &str =
        "//! | `one` | warning, or info without a disk | something |\n//! | `two` | info | more |";
    const CASES: [FindingCase<Vec<Finding>>; 3] = [
        ("one", Severity::Warning, |found| found.push(finding(Severity::Warning, "one"))),
        ("one", Severity::Info, |found| found.push(finding(Severity::Info, "one"))),
        ("two", Severity::Info, |found| found.push(finding(Severity::Info, "two"))),
    ];

    fn finding(severity: Severity, code: &'static str) -> Finding {
        Finding::new(severity, code, "a").because("it is so", "it matters").remedy("act")
    }

    fn accepts(docs: &str, elsewhere: &[&str], cases: &[FindingCase<Vec<Finding>>]) -> bool {
        let find = |change: fn(&mut Vec<Finding>)| {
            let mut found = Vec::new();
            change(&mut found);
            found
        };
        catch_unwind(AssertUnwindSafe(|| enforce_findings(docs, elsewhere, cases, find))).is_ok()
    }

    #[test]
    fn each_code_and_each_severity_is_in_the_cases_and_in_the_table() {
        assert!(accepts(DOCS, &[], &CASES));
        assert!(accepts(DOCS, &["two"], &CASES[..2]));
        assert!(!accepts(DOCS, &[], &CASES[..2]), "a row without a case");
        assert!(!accepts(DOCS, &[], &CASES[1..]), "a severity without a case");
        assert!(!accepts(&DOCS[..DOCS.find('\n').unwrap()], &[], &CASES), "a case without a row");
        assert!(!accepts(DOCS, &["three"], &CASES), "a code from elsewhere without a row");
    }

    #[test]
    fn a_finding_appears_once_and_has_words() {
        let wrong: [FindingCase<Vec<Finding>>; 3] = [
            ("two", Severity::Info, |_| ()),
            ("two", Severity::Info, |it| {
                it.extend([finding(Severity::Info, "two"), finding(Severity::Info, "two")])
            }),
            ("two", Severity::Info, |it| it.push(Finding::new(Severity::Info, "two", "a"))),
        ];
        for case in wrong {
            assert!(!accepts(DOCS, &["one"], &[case]));
        }
    }
}
