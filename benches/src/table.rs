//! Tables that show the outcome.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{fs, io};

use crate::plot::Plot;
use crate::{Effort, report};

/// A table of figures, with pictures above it and remarks below.
#[derive(Clone, Debug)]
pub struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    remarks: Vec<String>,
    plots: Vec<Plot>,
}

impl Table {
    /// An empty table. The first column names the rows.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
            remarks: Vec::new(),
            plots: Vec::new(),
        }
    }

    /// Adds a row. Missing columns at its end stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// Adds a remark.
    pub fn remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Adds a picture, for the report.
    pub fn plot(&mut self, plot: impl Into<Plot>) {
        self.plots.push(plot.into());
    }

    /// Prints the table, and writes it under `lock-benches/` in the build folder: as Markdown, as comma-separated
    /// values, and into `report.html`, beside the tables of other benches.
    ///
    /// The tables of a run that only tests the benches go to `smoke/` below that.
    ///
    /// # Errors
    ///
    /// If the files cannot be written.
    pub fn publish(&self, file: &str) -> io::Result<()> {
        let markdown = self.markdown();
        println!("\n{markdown}");
        let effort = Effort::from_args().map_or("unknown", |effort| effort.name);
        let folder = folder(effort)?;
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{file}.md")), markdown)?;
        fs::write(folder.join(format!("{file}.csv")), self.csv())?;
        report::insert(&folder, file, &self.html(effort))
    }

    fn html(&self, effort: &str) -> String {
        let made = format!("measured {}, effort: {effort}", report::now());
        let pictures: Vec<String> = self.plots.iter().filter_map(Plot::svg).collect();
        report::part(&self.title, &made, &pictures, &self.columns, &self.rows, &self.remarks)
    }

    fn markdown(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.columns]).map(|row| row[column].chars());
            cells.map(Iterator::count).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = format!("## {}\n\n", self.title);
        line(&mut text, &self.columns, &widths);
        let rules: Vec<String> = (widths.iter().enumerate())
            .map(|(column, &width)| match column {
                0 => "-".repeat(width),
                _ => format!("{}:", "-".repeat(width.saturating_sub(1))),
            })
            .collect();
        line(&mut text, &rules, &widths);
        for row in &self.rows {
            line(&mut text, row, &widths);
        }
        if !self.remarks.is_empty() {
            text.push('\n');
        }
        for remark in &self.remarks {
            _ = writeln!(text, "- {remark}");
        }
        text
    }

    fn csv(&self) -> String {
        let mut text = String::new();
        for row in [&self.columns].into_iter().chain(&self.rows) {
            let cells: Vec<String> =
                row.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
            _ = writeln!(text, "{}", cells.join(","));
        }
        text
    }
}

fn line(text: &mut String, cells: &[String], widths: &[usize]) {
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        _ = match column {
            0 => write!(text, "| {cell:<width$} "),
            _ => write!(text, "| {cell:>width$} "),
        };
    }
    text.push_str("|\n");
}

/// The folder beside that of the build profile. This program is in the `deps` folder of the profile.
fn folder(effort: &str) -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    match program.ancestors().nth(3) {
        Some(target) if effort == Effort::SMOKE => Ok(target.join("lock-benches").join(effort)),
        Some(target) => Ok(target.join("lock-benches")),
        None => Err(io::Error::other("this program does not lie in a build folder")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown_and_csv() {
        let mut table = Table::new("Speed", &["lock", "per second"]);
        table.row(["ours".to_owned(), "1.00M".to_owned()]);
        table.row(["out, of \"order\"".to_owned()]);
        table.remark("measured at night");
        assert_eq!(
            table.markdown(),
            "## Speed\n\n\
             | lock            | per second |\n\
             | --------------- | ---------: |\n\
             | ours            |      1.00M |\n\
             | out, of \"order\" |            |\n\n\
             - measured at night\n"
        );
        assert_eq!(
            table.csv(),
            "\"lock\",\"per second\"\n\"ours\",\"1.00M\"\n\"out, of \"\"order\"\"\",\"\"\n"
        );
    }
}
