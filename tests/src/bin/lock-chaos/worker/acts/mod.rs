//! The acts of a task with each primitive.

mod barrier;
mod cell;
mod election;
mod mutex;
mod probe;
mod reentrant;
mod resize;
mod rwlock;
mod semaphore;
mod slots;
mod stored;
mod together;

pub(crate) use probe::probe;
use stored::peek;

use super::options::Primitive;
use super::task::Task;

/// Takes a lock, works under it, and releases it.
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
        Primitive::Cell => cell::act(task).await,
        Primitive::Stored => stored::act(task).await,
    }
}

/// Requests in one of three ways, each a method of the lock: for the usual time, within a limit, and without
/// waiting. The arguments of these methods come before the limit.
macro_rules! ask {
    (
        $task:expr, $subjects:expr,
        $lock:ident.[$ask:ident, $within:ident, $try:ident]($($argument:expr),*)
    ) => {{
        let patience = $task.patience();
        match patience {
            Patience::Usual => {
                $task.take($subjects, patience, $lock.$ask($($argument),*)).await
            }
            Patience::Within(limit) => {
                $task.take($subjects, patience, $lock.$within($($argument,)* limit)).await
            }
            Patience::None => $task.take($subjects, patience, $lock.$try($($argument),*)).await,
        }
    }};
}

use ask;
