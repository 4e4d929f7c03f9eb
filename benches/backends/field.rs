//! Who takes part.

use std::sync::Arc;

use lock_benches::contestants::stores::{self, Reach, Rival, Store, Style};
use lock_benches::{Entrant, Failure, Setting, Site, Stage, is_wanted};

/// All stores, with their servers.
pub(crate) struct Field {
    /// The runtime of everything that runs in this process: tasks of a runtime with several threads, as in most
    /// servers.
    pub(crate) stage: Stage,
    stores: Vec<(Store, Arc<dyn Site>)>,
}

/// A row of a table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) store: Store,
    /// What is compared with the store; `None` for our own lock.
    pub(crate) rival: Option<Rival>,
    pub(crate) site: Arc<dyn Site>,
}

/// What a workload asks of the contestants.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    /// In which styles our own lock takes part.
    pub(crate) styles: &'static [Style],
    /// The number of callers.
    pub(crate) callers: usize,
    /// Whether callers want a key that is held.
    pub(crate) contended: bool,
    /// Whether the callers are in several processes.
    pub(crate) processes: bool,
    /// Whether the speed of the disk has a part in it.
    pub(crate) disk: bool,
}

impl Field {
    /// Starts all servers.
    pub(crate) fn start() -> Result<Self, Failure> {
        let start = |store: Store| Ok((store, store.start()?));
        let stores = stores::ALL.into_iter().map(start).collect::<Result<_, Failure>>()?;
        Ok(Self { stage: Stage::new(Setting::Spawned)?, stores })
    }

    /// The rows of a workload, and the reasons why some are missing.
    pub(crate) fn rows(&self, needs: Needs) -> (Vec<Row>, Vec<String>) {
        let (mut rows, mut absent) = (Vec::new(), Vec::new());
        for (store, site) in &self.stores {
            if needs.processes && store.reach == Reach::Process {
                absent.push(format!("{}: left out, its locks hold within a process.", store.name));
                continue;
            }
            if store.has_fast_disk && !needs.disk {
                continue;
            }
            let row =
                |name: String, rival| Row { name, store: *store, rival, site: Arc::clone(site) };
            rows.extend(needs.styles.iter().map(|style| row(store.row(*style), None)));
            for rival in store.rivals {
                match needs.refuses(rival) {
                    None => rows.push(row(rival.name.to_owned(), Some(*rival))),
                    Some(why) => absent.push(format!("{}: left out, {why}.", rival.name)),
                }
            }
        }
        rows.retain(|row| is_wanted(&row.name));
        (rows, absent)
    }

    /// The contestant of a row, with this many clients.
    pub(crate) fn entrant(&self, row: &Row, clients: usize) -> Result<Entrant, Failure> {
        let (name, url) = (row.name.clone(), row.site.url());
        self.stage.run(async move { stores::named(&name, &url, clients).await })
    }
}

impl Needs {
    fn refuses(self, rival: &Rival) -> Option<String> {
        if self.contended && !rival.waits {
            Some("it does not wait".to_owned())
        } else if self.callers > rival.most {
            Some(format!("it takes {} callers at most, each of them costs it much", rival.most))
        } else {
            None
        }
    }
}
