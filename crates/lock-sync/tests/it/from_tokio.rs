//! The page for users of tokio is complete.

const PAGE: &str = include_str!("../../src/from_tokio.md");

/// The items of tokio 1.54, by the section of the page that must name them.
///
/// Rustdoc follows the links, and so checks that the names in this crate exist.
const TOKIO: [(&str, &[&str]); 6] = [
    (
        "Mutex",
        &[
            "new",
            "const_new",
            "lock",
            "lock_owned",
            "try_lock",
            "try_lock_owned",
            "blocking_lock",
            "blocking_lock_owned",
            "get_mut",
            "into_inner",
            "Debug",
            "Default",
            "From<T>",
            "map",
            "try_map",
            "mutex",
            "Deref",
            "DerefMut",
            "Display",
            "Drop",
        ],
    ),
    (
        "RwLock",
        &[
            "new",
            "with_max_readers",
            "const_new",
            "const_with_max_readers",
            "read",
            "read_owned",
            "write",
            "write_owned",
            "try_read",
            "try_read_owned",
            "try_write",
            "try_write_owned",
            "blocking_read",
            "blocking_write",
            "get_mut",
            "into_inner",
            "Debug",
            "Default",
            "From<T>",
            "map",
            "try_map",
            "into_mapped",
            "downgrade",
            "downgrade_map",
            "try_downgrade_map",
            "rwlock",
            "Deref",
            "DerefMut",
            "Display",
            "Drop",
        ],
    ),
    (
        "Semaphore",
        &[
            "MAX_PERMITS",
            "new",
            "const_new",
            "acquire",
            "acquire_many",
            "acquire_owned",
            "acquire_many_owned",
            "try_acquire",
            "try_acquire_many",
            "try_acquire_owned",
            "try_acquire_many_owned",
            "blocking_acquire",
            "blocking_acquire_many",
            "blocking_acquire_owned",
            "blocking_acquire_many_owned",
            "available_permits",
            "add_permits",
            "forget_permits",
            "close",
            "is_closed",
            "Debug",
            "merge",
            "split",
            "num_permits",
            "semaphore",
            "forget",
            "Drop",
        ],
    ),
    (
        "OnceCell and SetOnce",
        &[
            "new",
            "const_new",
            "new_with",
            "const_new_with",
            "get",
            "initialized",
            "get_mut",
            "get_or_init",
            "get_or_try_init",
            "set",
            "take",
            "into_inner",
            "wait",
            "Debug",
            "Default",
            "From<T>",
            "Clone",
            "PartialEq",
        ],
    ),
    ("Barrier", &["new", "wait", "is_leader", "Debug"]),
    ("Errors", &["TryLockError", "AcquireError", "TryAcquireError", "SetError", "SetOnceError"]),
];

/// The methods of types without a table, because this crate has no such type.
const WITHOUT: [&str; 7] = [
    "Notify",
    "notify_one",
    "notify_last",
    "notify_waiters",
    "notified",
    "notified_owned",
    "enable",
];

#[test]
fn every_method_of_tokios_has_a_row() {
    for (section, names) in TOKIO {
        let rows = rows(section);
        for name in names {
            let row = rows.iter().find(|[theirs, ..]| names_in(theirs).contains(name));
            let [_, ours, change] =
                row.unwrap_or_else(|| panic!("the section {section} leaves out `{name}`"));
            // One link for each name, or a word that says why there is none.
            let links = ours.matches("](").count() + ours.matches("`]").count();
            assert!(links > 0 || ["none", "the same"].contains(ours), "{section} `{name}`: {ours}");
            assert!(!change.is_empty(), "{section}: nothing is said of `{name}`");
        }
    }
}

#[test]
fn what_cannot_be_is_explained() {
    let text = section("What is missing");
    for name in WITHOUT {
        assert!(text.contains(&format!("`{name}`")), "`{name}` is not explained");
    }
}

/// The cells of the rows of the tables in this section.
fn rows(heading: &str) -> Vec<[&'static str; 3]> {
    section(heading)
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|row| {
            let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
            cells.try_into().unwrap_or_else(|cells| panic!("a row without three cells: {cells:?}"))
        })
        .collect()
}

fn section(heading: &str) -> &'static str {
    let start = format!("\n# {heading}\n");
    let (_, rest) = PAGE.split_once(&start).unwrap_or_else(|| panic!("no section {heading}"));
    rest.split_once("\n# ").map_or(rest, |(section, _)| section)
}

/// The texts between backticks.
fn names_in(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
