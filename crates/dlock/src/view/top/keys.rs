//! What the keys do: pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use lock_core::{Inspection, Key};

use super::model::Model;

/// The part of the screen that takes the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Focus {
    /// The table.
    #[default]
    Table,
    /// The text of the filter.
    Filter,
    /// The question whether to end the leases on this lock, and what the question says about them.
    Confirm(Key, Inspection),
    /// The list of keys.
    Help,
}

/// What the program does after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Draw.
    Draw,
    /// Stop or start looking at the store.
    Pause,
    /// End the leases on this lock, if its holders are still these.
    Release(Key, Inspection),
    /// Leave.
    Quit,
}

/// A key was pressed.
pub(super) fn press(model: &mut Model, focus: &mut Focus, key: KeyEvent) -> Act {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Act::Quit;
    }
    match focus {
        Focus::Table => in_table(model, focus, key.code),
        Focus::Filter => in_filter(model, focus, key.code),
        Focus::Confirm(lock, seen) => {
            let (lock, seen) = (lock.clone(), seen.clone());
            *focus = Focus::Table;
            // Every other key means no.
            if key.code == KeyCode::Char('y') { Act::Release(lock, seen) } else { Act::Draw }
        }
        Focus::Help => {
            *focus = Focus::Table;
            Act::Draw
        }
    }
}

fn in_table(model: &mut Model, focus: &mut Focus, key: KeyCode) -> Act {
    let page = isize::try_from(model.page).unwrap_or(isize::MAX);
    match key {
        KeyCode::Char('q') => return Act::Quit,
        KeyCode::Esc if model.filter.is_empty() => return Act::Quit,
        KeyCode::Esc => model.filter.clear(),
        KeyCode::Char('p' | ' ') => return Act::Pause,
        KeyCode::Char('?' | 'h') => *focus = Focus::Help,
        KeyCode::Char('/') => *focus = Focus::Filter,
        KeyCode::Char('s') => model.sort = model.sort.next(),
        KeyCode::Char('r') => model.reversed = !model.reversed,
        KeyCode::Down | KeyCode::Char('j') => model.select_by(1),
        KeyCode::Up | KeyCode::Char('k') => model.select_by(-1),
        KeyCode::PageDown => model.select_by(page),
        KeyCode::PageUp => model.select_by(-page),
        KeyCode::Home => model.select_by(isize::MIN),
        KeyCode::End => model.select_by(isize::MAX),
        KeyCode::Char('x') | KeyCode::Delete => {
            if let Some((lock, row)) = model.selected() {
                *focus = Focus::Confirm(lock.clone(), row.seen.clone());
            }
        }
        _ => {}
    }
    model.arrange(model.now);
    Act::Draw
}

fn in_filter(model: &mut Model, focus: &mut Focus, key: KeyCode) -> Act {
    match key {
        KeyCode::Enter => *focus = Focus::Table,
        KeyCode::Esc => {
            model.filter.clear();
            *focus = Focus::Table;
        }
        KeyCode::Backspace => {
            model.filter.pop();
        }
        KeyCode::Char(letter) => model.filter.push(letter),
        _ => {}
    }
    model.arrange(model.now);
    Act::Draw
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use lock_core::Listed;

    use super::*;
    use crate::view::top::model::Sort;

    fn model() -> Model {
        let mut model = Model::new(Instant::now());
        model.page = 2;
        let held = Inspection::new((Vec::new(), 1), (Vec::new(), 0));
        let lock = |name: &str| Listed::new(Key::new(name).unwrap(), held.clone());
        model.listed(["a", "b", "ab"].map(lock).into(), model.now);
        model.arrange(model.now);
        model
    }

    /// Presses the keys, and returns what the last one asks for.
    fn type_in(model: &mut Model, focus: &mut Focus, keys: &[KeyCode]) -> Act {
        let press = |key: &KeyCode| press(model, focus, KeyEvent::new(*key, KeyModifiers::NONE));
        keys.iter().map(press).last().unwrap()
    }

    fn text(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    #[test]
    fn letters_go_into_the_filter_and_mean_nothing_else() {
        let (mut model, mut focus) = (model(), Focus::Table);
        assert_eq!(type_in(&mut model, &mut focus, &text("/bq")), Act::Draw);
        assert_eq!((model.filter.as_str(), model.shown()), ("bq", 0));
        type_in(&mut model, &mut focus, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((model.filter.as_str(), model.shown(), &focus), ("b", 2, &Focus::Table));
        // The first Esc removes the filter, and the second one leaves.
        assert_eq!(type_in(&mut model, &mut focus, &[KeyCode::Esc]), Act::Draw);
        assert_eq!(model.shown(), 3);
        assert_eq!(type_in(&mut model, &mut focus, &[KeyCode::Esc]), Act::Quit);
    }

    #[test]
    fn a_lock_is_released_only_after_yes() {
        let (mut model, mut focus) = (model(), Focus::Table);
        type_in(&mut model, &mut focus, &text("sssss"));
        assert_eq!(model.sort, Sort::Name);
        model.select_by(isize::MIN);
        for no in ["xn", "xY", "xx"] {
            assert_eq!(type_in(&mut model, &mut focus, &text(no)), Act::Draw);
            assert_eq!(focus, Focus::Table);
        }
        type_in(&mut model, &mut focus, &text("jx"));
        let lock = Key::new("ab").unwrap();
        let seen = model.selected().unwrap().1.seen.clone();
        assert_eq!(focus, Focus::Confirm(lock.clone(), seen.clone()));
        assert_eq!(type_in(&mut model, &mut focus, &text("y")), Act::Release(lock, seen));
    }

    #[test]
    fn without_a_lock_there_is_nothing_to_release() {
        let (mut model, mut focus) = (Model::new(Instant::now()), Focus::Table);
        assert_eq!(type_in(&mut model, &mut focus, &text("xy")), Act::Draw);
        assert_eq!(focus, Focus::Table);
    }

    #[test]
    fn any_key_leaves_the_help_and_control_c_leaves_everything() {
        let (mut model, mut focus) = (model(), Focus::Table);
        type_in(&mut model, &mut focus, &text("?"));
        assert_eq!(focus, Focus::Help);
        assert_eq!(type_in(&mut model, &mut focus, &text("q")), Act::Draw);
        assert_eq!(focus, Focus::Table);
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for mut focus in [Focus::Table, Focus::Filter, Focus::Help] {
            assert_eq!(press(&mut model, &mut focus, key), Act::Quit);
        }
    }

    #[test]
    fn keys_move_sort_reverse_and_pause() {
        let (mut model, mut focus) = (model(), Focus::Table);
        type_in(&mut model, &mut focus, &text("sssssr"));
        let place = |model: &Model| model.selected().unwrap().0.to_string();
        type_in(&mut model, &mut focus, &[KeyCode::Home]);
        assert_eq!((place(&model), model.reversed), ("b".to_owned(), true));
        for (key, expected) in [
            (KeyCode::PageDown, "a"),
            (KeyCode::Up, "ab"),
            (KeyCode::End, "a"),
            (KeyCode::PageUp, "b"),
            (KeyCode::Down, "ab"),
        ] {
            type_in(&mut model, &mut focus, &[key]);
            assert_eq!(place(&model), expected, "{key:?}");
        }
        assert_eq!(type_in(&mut model, &mut focus, &text("p")), Act::Pause);
        assert_eq!(type_in(&mut model, &mut focus, &text("q")), Act::Quit);
    }
}
