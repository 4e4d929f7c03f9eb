//! The page of the docs, compared with the table.

use std::collections::BTreeSet;

use super::features::{Feature, all, usual};

const PAGE: &str = include_str!("../../../crates/lock-redis/src/acl.md");

type Rights<'a> = BTreeSet<&'a str>;

#[test]
fn the_line_of_the_docs_has_the_rights_of_all_kinds_of_locks() {
    let (_, line) = PAGE.split_once("ACL SETUSER locks on >password ").unwrap();
    let (line, _) = line.split_once("```").unwrap();
    let (mut words, mut rights) = (Rights::new(), Rights::new());
    for word in line.split_whitespace() {
        assert!(words.insert(word), "{word} is there twice");
    }
    for word in ["resetkeys", "resetchannels", "-@all"] {
        assert!(words.remove(word), "{word} is not there");
    }
    let features = usual();
    rights.extend(features.iter().flat_map(rights_of));
    rights.insert("&__keyspace@*__:lock:*");
    assert_eq!(words, rights);
}

#[test]
fn the_table_of_the_docs_has_the_rights_of_each_feature() {
    let mut tables = PAGE.split("\n\n").filter(|part| part.starts_with('|'));
    let (kinds, besides) = (tables.next().unwrap(), tables.next().unwrap());
    let features = all();

    let rows: Vec<_> = kinds.lines().map(cells).collect();
    let (names, rows) = (&rows[0], &rows[2..]);
    for (column, name) in names.iter().enumerate().skip(1) {
        let marked = rows.iter().filter(|row| row[column] == "×");
        let documented: Vec<_> = marked.flat_map(|row| rights_in(&row[0])).collect();
        let feature = features.iter().find(|feature| feature.name == name).unwrap();
        assert_same(name, &documented, &rights_of(feature));
    }

    let by_time = rights_of(&features[0]);
    let mut documented = Rights::new();
    for row in besides.lines().skip(2).map(cells) {
        let Some(feature) = features.iter().find(|feature| feature.name == row[0]) else {
            assert_eq!(row[0], "a database other than 0");
            continue;
        };
        documented.insert(feature.name);
        let of_notifications =
            rights_in("`&__keyspace@*__:lock:*` `+subscribe` `+unsubscribe` `+setrange`");
        let mut rights = rights_in(&row[1]);
        if row[1].starts_with("those of notifications") {
            rights.extend(of_notifications);
        }
        let more: Rights<'_> = rights_of(feature).difference(&by_time).copied().collect();
        assert_same(feature.name, &rights, &more);
    }
    documented.extend(names.iter().skip(1).map(String::as_str));
    let named: Rights<'_> = features.iter().map(|feature| feature.name).collect();
    assert_eq!(documented, named, "the docs name other features");
}

fn assert_same(name: &str, documented: &[String], rights: &Rights<'_>) {
    let words: Rights<'_> = documented.iter().map(String::as_str).collect();
    assert_eq!(words.len(), documented.len(), "{name}: {documented:?}");
    assert_eq!(words, *rights, "{name}");
}

fn rights_of(feature: &Feature) -> Rights<'static> {
    let rights: Rights<'_> = feature.rights.iter().map(|(right, _)| *right).collect();
    assert_eq!(rights.len(), feature.rights.len(), "{}", feature.name);
    rights
}

/// The cells of a row, in which `\|` is no border.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim_matches('|').replace("\\|", "\0");
    row.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}

/// The texts between backticks.
fn rights_in(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
