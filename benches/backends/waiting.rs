//! The cost of a thousand waiters while nothing happens.

use std::time::Duration;

use lock_benches::contestants::stores::Style;
use lock_benches::measure::{Idle, Watched};
use lock_benches::{Effort, Failure, Table, short};

use crate::field::{Field, Needs};

/// The number of waiters.
const WAITERS: usize = 1_000;

const NEEDS: Needs = Needs {
    styles: &[Style::Dropped],
    callers: WAITERS,
    contended: true,
    processes: true,
    disk: false,
};

const COLUMNS: [&str; 5] =
    ["lock", "one key: servers", "… client", "a key each: servers", "… client"];

pub(crate) fn table(effort: &Effort, field: &Field) -> Result<Table, Failure> {
    let (rows, absent) = field.rows(NEEDS);
    let title = format!("{WAITERS} tasks that wait, in % of a processor");
    let mut table = Table::new(title, &COLUMNS);
    // Each takes half a minute for each row.
    let sizes = if effort.name == "full" { 2 } else { 1 };
    for row in &rows {
        let entrant = field.entrant(row, 2)?;
        let mut cells = vec![row.name.clone()];
        for keys in [1, WAITERS].into_iter().take(sizes) {
            let keys = entrant.fresh_keys(keys);
            let plan = Idle::new(WAITERS, keys, effort.idle, row.site.meters());
            match field.stage.run(entrant.idle(plan)) {
                Ok(idle) if idle.intruders == 0 => {
                    cells.extend(per_cent(&idle.holders, &idle.all));
                }
                Ok(idle) => {
                    cells.extend([String::new(), String::new()]);
                    table.remark(format!("{}: INCORRECT: {} got in.", row.name, idle.intruders));
                }
                Err(why) => {
                    cells.extend([String::new(), String::new()]);
                    table.remark(format!("{}: it failed: {why}.", row.name));
                }
            }
        }
        table.row(cells);
    }
    table.remark(format!(
        "Over {:?}, in the middle of nothing. Another client of the same process holds the key, or all keys. Its renewals \
         alone cost the first figure, and with the waiters there the second one.",
        effort.idle
    ));
    absent.into_iter().for_each(|why| table.remark(why));
    Ok(table)
}

/// What the servers and the client compute: before anything waits, and beside the waiters.
fn per_cent(holders: &Watched, all: &Watched) -> [String; 2] {
    let share = |time: Duration, of: Duration| short(time.as_secs_f64() * 1e2 / of.as_secs_f64());
    [
        format!("{}, {}", share(holders.server, holders.elapsed), share(all.server, all.elapsed)),
        format!("{}, {}", share(holders.cpu, holders.elapsed), share(all.cpu, all.elapsed)),
    ]
}
