//! The screens in the README are what the program draws.

use std::path::Path;
use std::time::Instant;

use lock_core::{FencingToken, Holder, Kind, Label, Listed, Waiter};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;

fn label(text: &str) -> Option<Label> {
    Label::new(text).ok()
}

fn lock(name: &str, holders: &[(&str, Kind, u64, u64)], waiters: &[&str]) -> Listed {
    let holder = |(of, kind, token, left): &(&str, Kind, u64, u64)| {
        let left = Duration::from_millis(*left);
        Holder::new(*kind, Some(FencingToken::new(*token)), Some(left)).labelled(label(of))
    };
    let waiter =
        |of: &&str| Waiter::new(Kind::Exclusive, Duration::from_secs(9)).labelled(label(of));
    let holders: Vec<_> = holders.iter().map(holder).collect();
    let waiters: Vec<_> = waiters.iter().map(waiter).collect();
    let counts = (holders.len() as u64, waiters.len() as u64);
    let seen = Inspection::new((holders, counts.0), (waiters, counts.1));
    Listed::new(Key::new(name).unwrap(), seen)
}

/// A shop with a busy lock, a few readers, and a lock whose holder hangs.
fn shop() -> Model {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut model = Model::new(start);
    let looks = |second: u64| {
        let left = |of: u64| (30_000 - second * 1_000).max(of);
        vec![
            lock(
                "orders/42",
                &[("billing@web-3:71", Kind::Exclusive, 700 + 36 * second, 29_200)],
                &["billing@web-1:64", "billing@web-2:90", "refunds@job-1:12"],
            ),
            lock(
                "report",
                &[("report@job-1:13", Kind::Exclusive, 91, left(0))],
                &["report@job-2:40"],
            ),
            lock(
                "catalog",
                &[
                    ("search@web-1:65", Kind::Shared, 17, left(21_000)),
                    ("search@web-2:91", Kind::Shared, 18, left(22_000)),
                ],
                &[],
            ),
            lock("upload", &[("upload@web-2:92", Kind::Permits(2), 33, left(25_000))], &[]),
        ]
    };
    for second in 0..=18 {
        model.listed(looks(second), at(second));
        model.round_over(at(second));
        model.arrange(at(second));
    }
    model
}

fn screen(model: &mut Model, around: &Around) -> String {
    let mut terminal = Terminal::new(TestBackend::new(100, 18)).unwrap();
    terminal.draw(|frame| draw(frame, model, around)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(100).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Compares a screen with the README, where a comment with its name stands before it. `DLOCK_WRITE_DOCS=1` writes the
/// screen there instead.
#[track_caller]
fn is_in_readme(name: &str, screen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let begin = format!("<!-- screen: {name} -->\n\n```text\n");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(&begin).expect("the README has the screen");
    let (documented, after) = rest.split_once("```\n").unwrap();
    if std::env::var_os("DLOCK_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{screen}```\n{after}")).unwrap();
    } else {
        assert_eq!(documented, screen, "the README is out of date: run with DLOCK_WRITE_DOCS=1");
    }
}

fn around(focus: Focus) -> Around {
    let store = "redis://cache.internal:6379".to_owned();
    Around { store, focus, has_queue: true, ..Around::default() }
}

#[test]
fn the_table_is_as_in_the_readme() {
    is_in_readme("table", &screen(&mut shop(), &around(Focus::Table)));
}

#[test]
fn the_question_is_as_in_the_readme() {
    let mut model = shop();
    model.select_by(1);
    let question = question(&model);
    is_in_readme("question", &screen(&mut model, &around(question)));
}

fn question(model: &Model) -> Focus {
    let (key, row) = model.selected().unwrap();
    Focus::Confirm(key.clone(), row.seen.clone())
}

#[test]
fn the_question_is_about_one_lock_whatever_is_selected_meanwhile() {
    let mut model = shop();
    model.select_by(1);
    let question = question(&model);
    let line = |model: &mut Model| {
        let screen = screen(model, &around(question.clone()));
        screen.lines().find(|line| line.contains("End the leases on")).unwrap().to_owned()
    };
    let asked = line(&mut model);
    model.select_by(1);
    assert_eq!(line(&mut model), asked);
}

#[test]
fn the_help_is_as_in_the_readme() {
    is_in_readme("help", &screen(&mut shop(), &around(Focus::Help)));
}

#[test]
fn the_waiters_of_a_store_without_a_queue_are_unknown() {
    let screen = screen(&mut shop(), &Around { has_queue: false, ..around(Focus::Table) });
    assert!(screen.contains("5 holders  waiters unknown  1 overdue"), "{screen}");
    assert!(screen.contains("29.2s  unknown"), "{screen}");
    assert!(screen.contains("orders/42: 1 hold, waiters unknown"), "{screen}");
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    let mut model = shop();
    for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 90)] {
        for focus in [Focus::Table, Focus::Help, Focus::Filter] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &mut model, &around(focus))).unwrap();
        }
    }
    let mut empty = Model::new(Instant::now());
    assert!(screen(&mut empty, &around(Focus::Table)).contains("no lock"));
}
