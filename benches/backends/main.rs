//! All backends side by side, each beside what its store costs by itself and beside other ways to lock with that store.
//!
//! First the contestants take turns, which gives the tables with their ratios. Then criterion measures the workloads
//! again, for the distributions behind the ratios.

mod compare;
mod crowds;
mod field;
mod free;
mod pictures;
mod teams;
mod waiting;

use lock_benches::{Effort, Failure, Table, team};

use self::field::Field;

/// The workloads: the name by which the command line chooses one, and its table.
const WORKLOADS: [(&str, Measure); 6] = [
    ("pair", free::table),
    ("hot-key", crowds::hot_key),
    ("processes", teams::hot_key),
    ("handover", teams::handover),
    ("waiters", waiting::table),
    ("many-keys", crowds::many_keys),
];

type Measure = fn(&Effort, &Field) -> Result<Table, Failure>;

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let wanted = std::env::args().skip(1).next_back().filter(|it| !it.starts_with('-'));
    let field = Field::start()?;
    for (name, measure) in WORKLOADS {
        if wanted.as_ref().is_none_or(|wanted| wanted == name) {
            measure(&effort, &field)?.publish(&format!("backends-{name}"))?;
        }
    }
    pictures::draw(&effort, &field)
}
