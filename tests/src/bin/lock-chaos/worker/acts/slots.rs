//! Slots: permits without a count.

use std::sync::Arc;

use lock_tests::chaos::history::Way;

use super::ask;
use crate::worker::op::Subject;
use crate::worker::shelf::SLOTS;
use crate::worker::task::{Patience, Task};

pub(super) async fn act(task: &mut Task) {
    let subject = Subject { key: SLOTS, way: Way::Permits(1) };
    let slots = Arc::clone(&task.crew.shelf.slots);
    match task.random.below(20) {
        0 => {
            let taken = task.take_blocking(subject, move || slots.blocking_acquire_owned()).await;
            task.use_up_anywhere(taken).await;
        }
        1..=9 => {
            let taken = ask!(
                task, &[subject],
                slots.[acquire_owned, acquire_owned_timeout, try_acquire_owned]()
            );
            task.use_up_anywhere(taken).await;
        }
        _ => {
            let taken = ask!(task, &[subject], slots.[acquire, acquire_timeout, try_acquire]());
            task.use_up(taken).await;
        }
    }
}
