//! Slots, which are permits where nobody counts.

use std::sync::Arc;

use lock_tests::chaos::history::Way;

use crate::worker::op::Subject;
use crate::worker::shelf::SLOTS;
use crate::worker::task::{Patience, Task};

pub(super) async fn act(task: &mut Task) {
    let subject = Subject { key: SLOTS, way: Way::Permits(1) };
    let slots = Arc::clone(&task.crew.shelf.slots);
    let patience = task.patience();
    let (subjects, tries) = ([subject], patience.tries());
    match task.random.below(20) {
        0 => {
            let taken = task.take_blocking(subject, move || slots.blocking_acquire_owned()).await;
            if let Some(mut holding) = taken {
                task.visit(&mut holding).await;
                task.part_anywhere(holding).await;
            }
        }
        1..=9 => {
            let taken = match patience {
                Patience::Usual => task.take(&subjects, tries, slots.acquire_owned()).await,
                Patience::Within(limit) => {
                    task.take(&subjects, tries, slots.acquire_owned_timeout(limit)).await
                }
                Patience::None => task.take(&subjects, tries, slots.try_acquire_owned()).await,
            };
            if let Some(mut holding) = taken {
                task.visit(&mut holding).await;
                task.part_anywhere(holding).await;
            }
        }
        _ => {
            let taken = match patience {
                Patience::Usual => task.take(&subjects, tries, slots.acquire()).await,
                Patience::Within(limit) => {
                    task.take(&subjects, tries, slots.acquire_timeout(limit)).await
                }
                Patience::None => task.take(&subjects, tries, slots.try_acquire()).await,
            };
            if let Some(mut holding) = taken {
                task.visit(&mut holding).await;
                task.part(holding).await;
            }
        }
    }
}
