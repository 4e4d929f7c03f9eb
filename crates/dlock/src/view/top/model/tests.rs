use lock_core::{FencingToken, Holder, Kind};

use super::*;

fn lock(name: &str, token: u64, left: u64, waiting: u64) -> Listed {
    let left = Some(Duration::from_secs(left));
    let holder = Holder::new(Kind::Exclusive, Some(FencingToken::new(token)), left);
    let inspection = Inspection::new((vec![holder], 1), (Vec::new(), waiting));
    Listed::new(Key::new(name).unwrap(), inspection)
}

fn names(model: &Model) -> Vec<String> {
    model.visible().map(|(key, _)| key.to_string()).collect()
}

/// A model that has seen these locks, on a screen with this many lines.
fn model(page: usize, locks: Vec<Listed>) -> Model {
    let mut model = Model::new(Instant::now());
    model.page = page;
    listed(&mut model, locks, 0);
    model
}

/// The store has shown these locks, `seconds` after the last event.
fn listed(model: &mut Model, locks: Vec<Listed>, seconds: u64) {
    let now = model.now + Duration::from_secs(seconds);
    model.listed(locks, now);
    model.arrange(now);
}

/// The walk is over, `seconds` after the last event.
fn round_over(model: &mut Model, seconds: u64) {
    let now = model.now + Duration::from_secs(seconds);
    model.round_over(now);
    model.arrange(now);
}

fn three() -> Vec<Listed> {
    vec![lock("a", 1, 30, 0), lock("b", 2, 10, 5), lock("c", 3, 20, 1)]
}

#[test]
fn each_order_is_reversible() {
    let mut model = model(9, three());
    let orders = [
        (Sort::Waiting, ["b", "c", "a"]),
        (Sort::Tokens, ["b", "c", "a"]),
        (Sort::Losses, ["a", "b", "c"]),
        (Sort::Holders, ["b", "c", "a"]),
        (Sort::Left, ["b", "c", "a"]),
        (Sort::Name, ["a", "b", "c"]),
    ];
    for (sort, mut expected) in orders {
        assert_eq!(model.sort, sort);
        assert_eq!(names(&model), expected, "{sort:?}");
        model.reversed = true;
        model.arrange(model.now);
        expected.reverse();
        assert_eq!(names(&model), expected, "{sort:?}");
        model.reversed = false;
        model.sort = sort.next();
        model.arrange(model.now);
    }
    assert_eq!(model.sort, Sort::Waiting);
}

#[test]
fn a_lock_that_a_whole_walk_did_not_show_is_gone() {
    let mut model = model(9, three());
    round_over(&mut model, 0);
    assert_eq!(model.sums().locks, 3);
    listed(&mut model, vec![lock("a", 1, 30, 0)], 0);
    round_over(&mut model, 0);
    assert_eq!(names(&model), ["a"]);
}

#[test]
fn a_lock_whose_lease_ran_out_stays_with_its_loss() {
    let mut model = model(9, three());
    round_over(&mut model, 19);
    listed(&mut model, vec![lock("a", 1, 11, 0), lock("c", 3, 1, 1)], 0);
    assert_eq!(model.sums().overdue, 2);
    round_over(&mut model, 6);
    round_over(&mut model, 1);
    // The walk of the 25th second showed neither `c`, whose time was over, nor `b`, which was not late at any look.
    let sums = model.sums();
    assert_eq!((sums.losses, sums.locks), (1, 0));
    assert_eq!(names(&model), ["c"]);
}

#[test]
fn the_selected_lock_stays_selected_and_on_the_screen() {
    let mut model = model(2, three());
    model.sort = Sort::Name;
    model.arrange(model.now);
    let selected = |model: &Model| model.selected().map(|(key, _)| key.to_string()).unwrap();
    model.select_by(-100);
    assert_eq!(selected(&model), "a");
    model.select_by(2);
    assert_eq!((selected(&model), model.offset), ("c".to_owned(), 1));
    // New locks come before it.
    listed(&mut model, vec![lock("aa", 9, 30, 0), lock("ab", 9, 30, 0)], 0);
    assert_eq!((selected(&model), model.offset), ("c".to_owned(), 3));
    model.select_by(-3);
    assert_eq!((selected(&model), model.offset), ("aa".to_owned(), 1));
    model.select_by(100);
    assert_eq!(selected(&model), "c");
}

#[test]
fn when_the_selected_lock_goes_the_one_in_its_place_is_selected() {
    let mut model = model(1, vec![lock("a", 1, 30, 0)]);
    assert_eq!(model.selected().unwrap().0.to_string(), "a");
    round_over(&mut model, 0);
    listed(&mut model, vec![lock("b", 1, 30, 0)], 0);
    round_over(&mut model, 0);
    assert_eq!(model.selected().unwrap().0.to_string(), "b");
    round_over(&mut model, 0);
    assert!(model.selected().is_none() && names(&model).is_empty());
}

#[test]
fn a_filter_hides_the_other_locks_and_counts_them_still() {
    let mut model = model(9, three());
    model.filter = "b".to_owned();
    model.arrange(model.now);
    assert_eq!((names(&model), model.sums().locks), (vec!["b".to_owned()], 3));
    model.filter = "none".to_owned();
    model.arrange(model.now);
    assert!(model.selected().is_none());
}

#[test]
fn sums_are_over_all_locks_and_turns_over_the_last_seconds() {
    let mut model = model(1, three());
    listed(&mut model, vec![lock("a", 11, 30, 0), lock("b", 12, 10, 5)], 1);
    let sums = model.sums();
    assert_eq!((sums.locks, sums.holders, sums.waiters, sums.contended), (3, 3, 6, 2));
    assert_eq!(sums.turns_per_second, 0.2);
    assert_eq!(sums.tokens_per_second, 10.0);
}

#[test]
fn many_hot_locks_have_their_turns() {
    let waited = |number: u64| lock(&format!("{number:03}"), 1, 30, 1);
    let mut model = model(10, (0..200).map(waited).collect());
    model.sort = Sort::Name;
    model.arrange(model.now);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let hot = model.hot();
        assert_eq!(hot.len(), HOT);
        assert!(hot.iter().any(|key| key.to_string() == "000"), "the screen is always hot");
        seen.extend(hot);
    }
    assert_eq!(seen.len(), 200);
    let mut few = super::tests::model(10, three());
    assert_eq!(few.hot().len(), 3);
}
