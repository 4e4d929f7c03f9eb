//! The limit of a semaphore.

use std::sync::Arc;

use lock_core::{Error, Key};
use lock_sync::Semaphore;
use lock_tests::chaos::history::Deed;

use crate::worker::journal::{Era, Journal};
use crate::worker::ledger::Ledger;
use crate::worker::shelf::{RESIZED, SEMAPHORES};
use crate::worker::task::Task;

/// The least and the most that it is made.
const LIMITS: (u32, u32) = (6, 9);

/// Makes the limit another one, unless somebody else is about to. In the words of a history, what was forgotten
/// counts as held, and not as gone.
pub(super) async fn act(task: &mut Task, semaphore: &Semaphore) {
    let Some(mut page) = Ledger::of(&task.crew.options.folder).open() else { return };
    if page.sealed {
        return;
    }
    let Some(limit) = limit(task).await else { return };
    let limit = limit + page.forgotten;
    let (least, most) = LIMITS;
    let target = least + task.random.below((most - least + 1) as usize) as u32;
    // In this order: if this process ends here, nobody knows.
    page.sealed = true;
    page.keep();
    let resizing = Resizing::begin(&task.crew.journal, target);
    let changed = change(semaphore, limit, target).await;
    page.sealed = changed.is_err();
    page.keep();
    resizing.end(changed.ok());
}

/// How many permits the store says that there are.
async fn limit(task: &Task) -> Option<u32> {
    let counting = task.crew.shelf.counting.as_ref()?;
    let (key, declared) = SEMAPHORES[RESIZED];
    let key = Key::new(key).ok()?;
    counting.backend.permits(&key, declared).await.ok().map(|permits| permits.limit)
}

/// Returns the limit afterwards. Only permits that are free are taken away.
async fn change(semaphore: &Semaphore, limit: u32, target: u32) -> Result<u32, Error> {
    if target > limit {
        semaphore.add_permits((target - limit) as usize).await?;
        Ok(target)
    } else if target < limit {
        let gone = semaphore.forget_permits((limit - target) as usize).await?;
        Ok(limit - u32::try_from(gone).unwrap_or(0))
    } else {
        Ok(limit)
    }
}

/// A change that has begun. Nobody knows what came of it if this is dropped.
struct Resizing {
    journal: Arc<Journal>,
    era: Era,
    limit: Option<u32>,
}

impl Resizing {
    fn begin(journal: &Arc<Journal>, limit: u32) -> Self {
        let (journal, era) = (Arc::clone(journal), journal.era());
        journal.record_in(era, &Deed::Resize { key: key(), limit });
        Self { journal, era, limit: None }
    }

    fn end(mut self, limit: Option<u32>) {
        self.limit = limit;
    }
}

impl Drop for Resizing {
    fn drop(&mut self) {
        self.journal.record_in(self.era, &Deed::Resized { key: key(), limit: self.limit });
    }
}

fn key() -> String {
    SEMAPHORES[RESIZED].0.to_owned()
}
