//! The page with all tables and pictures.

use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use crate::plot::escape;

/// The file name of the page.
pub(crate) const PAGE: &str = "report.html";

/// The folder of the page's parts: one file for each table that was published.
const PARTS: &str = "parts";

/// The order of the tables. Tables of other names come last.
const ORDER: [&str; 14] = [
    "backends",
    "hot-key",
    "processes",
    "rwlock",
    "semaphore",
    "handover",
    "section",
    "waiters",
    "growth",
    "quorum",
    "ratios",
    "many-keys",
    "scripts",
    "allocations",
];

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width\">\n<title>What the locks cost</title>\n\
<style>\n\
:root { color-scheme: light dark; --ink: light-dark(#212529, #dee2e6); --faint: \
light-dark(#dee2e6, #495057); }\n\
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 60rem; margin: 2rem \
auto; padding: 0 1rem; }\n\
h2 { font-size: 1.15rem; margin-top: 2.5rem; }\n\
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; \
overflow-x: auto; }\n\
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--faint); text-align: right; \
white-space: nowrap; }\n\
th:first-child, td:first-child { text-align: left; }\n\
.made, li { font-size: .85rem; }\n\
svg { width: 100%; max-width: 760px; display: block; margin: 1rem 0; }\n\
svg .title { font: 600 14px system-ui, sans-serif; fill: var(--ink); }\n\
svg .label { font: 12px system-ui, sans-serif; fill: var(--ink); }\n\
svg .rule { stroke: var(--faint); }\n\
</style>\n<h1>What the locks cost</h1>\n\
<p>Everything is a ratio in one run: compare within a table, not between two. What the figures \
mean, and how to repeat them, is in <code>benches/FIGURES.md</code>.</p>\n";

/// Puts a table into the page below `folder`, in place of an earlier table of its name, and writes the page again from
/// all its tables.
pub(crate) fn insert(folder: &Path, name: &str, html: &str) -> io::Result<()> {
    let parts = folder.join(PARTS);
    fs::create_dir_all(&parts)?;
    fs::write(parts.join(format!("{name}.html")), html)?;

    let mut names = Vec::new();
    for entry in fs::read_dir(&parts)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(stem) = stem.filter(|_| path.extension().is_some_and(|it| it == "html")) {
            names.push(stem.to_owned());
        }
    }
    names.sort_by_cached_key(|name| place(name));
    let mut page = HEAD.to_owned();
    for name in names {
        page.push_str(&fs::read_to_string(parts.join(format!("{name}.html")))?);
    }
    fs::write(folder.join(PAGE), page)
}

/// By the bench, then a summary before the sizes, and small sizes before large ones.
fn place(name: &str) -> (usize, usize, String) {
    let bench = ORDER.iter().position(|bench| name.starts_with(bench)).unwrap_or(ORDER.len());
    let size = name.rsplit_once('-').and_then(|(_, size)| size.parse().ok()).unwrap_or(0);
    (bench, size, name.to_owned())
}

/// One part of the page: a heading, pictures, a table and remarks.
pub(crate) fn part(
    title: &str,
    made: &str,
    pictures: &[String],
    columns: &[String],
    rows: &[Vec<String>],
    remarks: &[String],
) -> String {
    let cells = |tag: &str, row: &[String]| -> String {
        row.iter().map(|cell| format!("<{tag}>{}</{tag}>", inline(cell))).collect()
    };
    let mut html = format!(
        "<section>\n<h2>{}</h2>\n<p class=\"made\">{}</p>\n{}",
        inline(title),
        escape(made),
        pictures.concat()
    );
    html += &format!("<table>\n<tr>{}</tr>\n", cells("th", columns));
    for row in rows {
        html += &format!("<tr>{}</tr>\n", cells("td", row));
    }
    html += "</table>\n<ul>\n";
    for remark in remarks {
        html += &format!("<li>{}</li>\n", inline(remark));
    }
    html + "</ul>\n</section>\n"
}

/// The date and time of day, UTC.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    date(since.unwrap_or(Duration::ZERO).as_secs())
}

/// A text as HTML: words between backticks become code.
fn inline(text: &str) -> String {
    let pieces = escape(text);
    let pieces = pieces.split('`').enumerate();
    pieces
        .map(|(number, piece)| match number % 2 {
            0 => piece.to_owned(),
            _ => format!("<code>{piece}</code>"),
        })
        .collect()
}

/// Seconds since 1970 as a date and time.
fn date(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    loop {
        let length = 365 + u64::from(is_leap(year));
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02} UTC", days + 1, time / 3600, time / 60 % 60)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_table_once_and_in_order() {
        let folder = std::env::temp_dir().join(format!("lock-benches-{}", std::process::id()));
        for name in ["other", "hot-key-32", "growth", "hot-key-8", "hot-key", "growth"] {
            let html = part(name, "", &[], &["lock".to_owned()], &[vec!["a<b".to_owned()]], &[]);
            insert(&folder, name, &html).unwrap();
        }
        let page = fs::read_to_string(folder.join(PAGE)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let titles: Vec<&str> =
            page.split("<h2>").skip(1).filter_map(|rest| rest.split("</h2>").next()).collect();
        assert_eq!(titles, ["hot-key", "hot-key-8", "hot-key-32", "growth", "other"]);
        assert!(page.contains("<td>a&lt;b</td>"));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_825_600), "2000-02-29 12:00 UTC");
        assert_eq!(date(1_798_761_599), "2026-12-31 23:59 UTC");
    }

    #[test]
    fn backticks_are_code() {
        assert_eq!(inline("`a` < b"), "<code>a</code> &lt; b");
    }
}
