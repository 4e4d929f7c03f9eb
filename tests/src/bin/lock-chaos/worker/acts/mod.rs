//! What a task does with each primitive.

mod barrier;
mod election;
mod mutex;
mod reentrant;
mod resize;
mod rwlock;
mod semaphore;
mod slots;
mod together;

use super::options::Primitive;
use super::task::Task;

/// Takes something, does something with it, and lets go of it.
pub(crate) async fn act(task: &mut Task) {
    match task.primitive() {
        Primitive::Mutex => mutex::act(task).await,
        Primitive::RwLock => rwlock::act(task).await,
        Primitive::Semaphore => semaphore::act(task).await,
        Primitive::Reentrant => reentrant::act(task).await,
        Primitive::Together => together::act(task).await,
        Primitive::Slots => slots::act(task).await,
        Primitive::Barrier => barrier::act(task).await,
        Primitive::Election => election::act(task).await,
    }
}
