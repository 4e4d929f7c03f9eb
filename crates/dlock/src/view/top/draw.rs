//! The screen of `dlock top`: draws a model, and sets how many lines of the model fit.

use std::time::Duration;

use lock_core::{Inspection, Key};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row as Cells, Table};

use super::keys::Focus;
use super::model::{Model, Sort};
use super::row::Row;
use crate::view::records::name;
use crate::view::shown::{number, time, waiting};

/// The lines below the table that show the selected lock, with its title.
const DETAILS: u16 = 6;

const HELP: [&str; 11] = [
    "s      the next order; r reverses it",
    "/      show only names with a text; Esc shows all again",
    "↑ ↓ PgUp PgDn Home End   select a lock",
    "x      end the leases on the selected lock, after a question",
    "p      pause and go on",
    "q      leave",
    "",
    "TURNS     how often a look found another holder",
    "TOKENS/S  by how much the fencing tokens advance: no lock has",
    "          more new holders in a second",
    "LOST      leases that ran out after a late renewal",
];

/// What the screen shows apart from the model.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// The store, without credentials.
    pub(super) store: String,
    pub(super) focus: Focus,
    pub(super) is_paused: bool,
    /// The outcome of the last request, while the screen shows it.
    pub(super) message: Option<String>,
    pub(super) has_colors: bool,
    /// Whether the store has a queue. Otherwise the numbers of waiters are unknown.
    pub(super) has_queue: bool,
}

impl Around {
    fn paint(&self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model, around: &Around) {
    let sizes = [1, 1, 0, DETAILS, 1].map(|lines| match lines {
        0 => Constraint::Min(3),
        lines => Constraint::Length(lines),
    });
    let [title, sums, table, details, footer] = Layout::vertical(sizes).areas(frame.area());
    model.page = usize::from(table.height.saturating_sub(1)).max(1);
    model.scroll();
    frame.render_widget(title_line(model, around), title);
    frame.render_widget(sums_line(model, around), sums);
    locks(frame, table, model, around);
    selected(frame, details, model, around);
    frame.render_widget(footer_line(model, around), footer);
    if around.focus == Focus::Help {
        help(frame);
    }
}

fn title_line(model: &Model, around: &Around) -> Line<'static> {
    let walk = match model.round_took {
        Some(took) => format!("a walk took {}", time(took)),
        None => "first walk".to_owned(),
    };
    let paused = if around.is_paused { "  PAUSED" } else { "" };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Line::from(vec![
        Span::styled("dlock top", bold),
        Span::raw(format!("  {}  {walk}", around.store)),
        Span::styled(paused, bold),
    ])
}

fn sums_line(model: &Model, around: &Around) -> Line<'static> {
    let sums = model.sums();
    let alarm = |count: u64| if count > 0 { around.paint(Color::Red) } else { Style::new() };
    let waiters = if around.has_queue {
        format!("{} waiters on {} locks  ", sums.waiters, sums.contended)
    } else {
        "waiters unknown  ".to_owned()
    };
    Line::from(vec![
        Span::raw(format!("{} locks  {} holders  ", sums.locks, sums.holders)),
        Span::raw(waiters),
        Span::styled(format!("{} overdue  ", sums.overdue), alarm(sums.overdue as u64)),
        Span::styled(format!("{} lost  ", sums.losses), alarm(sums.losses)),
        Span::raw(format!("{} turns/s  ", number(sums.turns_per_second))),
        Span::raw(format!("{} tokens/s", number(sums.tokens_per_second))),
    ])
}

fn locks(frame: &mut Frame<'_>, area: Rect, model: &Model, around: &Around) {
    let columns = [
        ("LOCK", None, Constraint::Fill(3)),
        ("HOLDER", Some(Sort::Holders), Constraint::Fill(3)),
        ("MODE", None, Constraint::Length(10)),
        ("LEFT", Some(Sort::Left), Constraint::Length(6)),
        ("WAITING", Some(Sort::Waiting), Constraint::Length(8)),
        ("FOR", None, Constraint::Length(6)),
        ("TURNS", None, Constraint::Length(6)),
        ("TOKENS/S", Some(Sort::Tokens), Constraint::Length(9)),
        ("LOST", Some(Sort::Losses), Constraint::Length(5)),
    ];
    let arrow = if model.reversed { "▲" } else { "▼" };
    let header = columns.map(|(title, sort, _)| match sort {
        Some(sort) if sort == model.sort => format!("{title}{arrow}"),
        None if title == "LOCK" && model.sort == Sort::Name => format!("{title}{arrow}"),
        _ => title.to_owned(),
    });
    let header = Cells::new(header).style(Style::new().add_modifier(Modifier::REVERSED));
    let chosen = model.selected().map(|(key, _)| key);
    let rows = model.visible().map(|(key, row)| {
        let cells = Cells::new(cells(key, row, model, around)).style(style(row, around));
        if chosen == Some(key) {
            cells.style(style(row, around).add_modifier(Modifier::REVERSED))
        } else {
            cells
        }
    });
    let rows: Vec<_> = rows.collect();
    frame.render_widget(Table::new(rows, columns.map(|it| it.2)).header(header), area);
}

fn style(row: &Row, around: &Around) -> Style {
    if row.losses > 0 || row.is_overdue() {
        around.paint(Color::Red)
    } else if row.seen.waiting > 0 {
        around.paint(Color::Yellow)
    } else {
        Style::new()
    }
}

fn cells(key: &Key, row: &Row, model: &Model, around: &Around) -> [String; 9] {
    let or_dash = |time_of: Option<Duration>| time_of.map_or("-".to_owned(), time);
    let (holder, mode) = holder(&row.seen);
    [
        name(key),
        holder,
        mode,
        or_dash(row.left(model.now)),
        waiting(row.seen.waiting, around.has_queue),
        or_dash(row.waited(model.now)),
        row.turns.to_string(),
        number(row.tokens_per_second),
        row.losses.to_string(),
    ]
}

/// The first holder, and how it holds the lock.
pub(crate) fn holder(seen: &Inspection) -> (String, String) {
    let Some(first) = seen.holders.first() else { return ("-".to_owned(), "-".to_owned()) };
    let label = first.label.as_ref().map_or("(no label)", |label| label.as_str());
    let more = match seen.holding.saturating_sub(1) {
        0 => String::new(),
        more => format!(" +{more}"),
    };
    (format!("{label}{more}"), first.kind.to_string())
}

fn selected(frame: &mut Frame<'_>, area: Rect, model: &Model, around: &Around) {
    let Some((key, row)) = model.selected() else {
        frame.render_widget(Block::bordered().title("no lock"), area);
        return;
    };
    let holders = row.seen.holders.iter().map(|holder| format!("holds  {holder}"));
    let waiters = row.seen.waiters.iter().map(|waiter| format!("waits  {waiter}"));
    let room = usize::from(DETAILS - 2);
    // If there are waiters, they keep two lines of the room.
    let of_waiters = row.seen.waiters.len().min(2);
    let mut lines: Vec<_> = holders.take(room - of_waiters).collect();
    let left = room - lines.len();
    lines.extend(waiters.take(left));
    let wait = if around.has_queue {
        format!("{} wait", row.seen.waiting)
    } else {
        "waiters unknown".to_owned()
    };
    let title = format!("{}: {} hold, {wait}", name(key), row.seen.holding);
    let block = Block::bordered().title(title);
    frame.render_widget(Paragraph::new(lines.join("\n")).block(block), area);
}

fn footer_line(model: &Model, around: &Around) -> Line<'static> {
    match (&around.focus, &around.message) {
        (Focus::Filter, _) => Line::raw(format!("show names with: {}▏", model.filter)),
        (Focus::Confirm(key, seen), _) => {
            let text = format!("End the leases on {}, {seen}? y/n", name(key));
            Line::styled(text, around.paint(Color::Red).add_modifier(Modifier::BOLD))
        }
        (_, Some(message)) => Line::raw(message.clone()),
        (_, None) => {
            let filter = if model.filter.is_empty() { "" } else { "  Esc all" };
            let keys = "q leave  s sort  r reverse  / filter  x release  p pause  ? help";
            Line::raw(format!("{keys}{filter}  {} shown by {}", model.shown(), model.sort.name()))
        }
    }
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (66.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let area = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, area);
    let block = Block::bordered().title("keys and columns");
    frame.render_widget(Paragraph::new(HELP.join("\n")).block(block), area);
}

#[cfg(test)]
mod tests;
