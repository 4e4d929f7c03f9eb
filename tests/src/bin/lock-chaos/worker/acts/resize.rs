//! The limit of a semaphore.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lock_core::{Error, Key};
use lock_sync::Semaphore;
use lock_tests::chaos::history::Deed;

use crate::worker::journal::{Era, Journal};
use crate::worker::ledger::Ledger;
use crate::worker::op::{Holding, Permits};
use crate::worker::shelf::{RESIZED, SEMAPHORES};
use crate::worker::task::Task;

/// The lowest and the highest limit.
const LIMITS: (u32, u32) = (6, 9);

/// The number of permits that all workers of a run may forget together, so that enough are left.
const FORGETTABLE: u32 = 2;

/// How often the store is asked whether it knows.
const LOOK: Duration = Duration::from_millis(10);

/// Changes the limit, unless another worker is about to. In the words of a history, forgotten permits count as
/// held, and not as gone.
pub(super) async fn act(task: &mut Task, semaphore: &Semaphore) {
    let Some(mut page) = Ledger::of(&task.crew.options.folder).open() else { return };
    if page.sealed {
        return;
    }
    let Some(limit) = limit(task).await else { return };
    let limit = limit + page.forgotten;
    let (least, most) = LIMITS;
    let target = least + task.random.below((most - least + 1) as usize) as u32;
    // In this order: if this process ends here, the limit counts as unknown.
    page.sealed = true;
    page.keep();
    let resizing = Resizing::begin(&task.crew.journal, target);
    let changed = change(semaphore, limit, target).await;
    if let Ok(limit) = changed {
        (page.limit, page.sealed) = (limit, false);
        page.keep();
    }
    resizing.end(changed.ok());
}

/// Forgets a permit, and waits until the store knows: otherwise a worker that changes the limit meanwhile would
/// take a permit that is about to go for one that stays. Once in each client, as long as all clients together
/// leave enough; otherwise the permit is released.
pub(super) async fn forget<P: Permits>(task: &mut Task, permit: Holding<P>) -> Option<Holding<P>> {
    if task.crew.has_forgotten.swap(true, Ordering::Relaxed) {
        return Some(permit);
    }
    let page = Ledger::of(&task.crew.options.folder).open();
    let Some(mut page) = page.filter(|page| !page.sealed && page.forgotten < FORGETTABLE) else {
        return Some(permit);
    };
    let Some(before) = limit(task).await else { return Some(permit) };
    (page.forgotten, page.sealed) = (page.forgotten + 1, true);
    page.keep();
    permit.forget();
    // If the store never knows, the permit is back when the lease has ended.
    let ended = Instant::now() + 2 * task.crew.options.ttl;
    loop {
        let is_over = Instant::now() > ended;
        match limit(task).await {
            Some(now) if now != before => break,
            Some(_) if is_over => {
                page.forgotten -= 1;
                break;
            }
            None if is_over => return None,
            _ => tokio::time::sleep(LOOK).await,
        }
    }
    page.sealed = false;
    page.keep();
    None
}

/// The number of permits in the store.
async fn limit(task: &Task) -> Option<u32> {
    let counting = task.crew.shelf.counting.as_ref()?;
    let (key, declared) = SEMAPHORES[RESIZED];
    let key = Key::new(key).ok()?;
    counting.backend.permits(&key, declared).await.ok().map(|permits| permits.limit)
}

/// Returns the limit afterwards. Only free permits are taken away.
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

/// A change that has begun. Its outcome is unknown if this is dropped.
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
