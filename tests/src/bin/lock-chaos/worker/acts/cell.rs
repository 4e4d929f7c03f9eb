//! A value that one task makes and all read.

use std::sync::Arc;
use std::time::Duration;

use lock_tests::chaos::history::Refusal;

use crate::worker::cells;
use crate::worker::crew::Crew;
use crate::worker::op::Looking;
use crate::worker::refusal::Denial;
use crate::worker::task::Task;

pub(super) async fn act(task: &mut Task) {
    let crew = Arc::clone(&task.crew);
    let number = crew.shelf.cells.series.draw(&mut task.random);
    let cell = if task.random.percent(75) {
        crew.shelf.cells.shared(number)
    } else {
        Arc::new(crew.shelf.cells.fresh(number))
    };
    let (whim, attempt) = (task.whim(), Attempt::draw(task));
    let way = task.random.below(10);
    let looking = Looking::begin(&crew.journal, task.number, cells::name(number));
    let told = match way {
        0..=1 => match cell.get() {
            Some(value) => Some(Ok(Some(*value))),
            None => {
                whim.bear(cell.load()).await.map(|told| answer(told.map(|value| value.copied())))
            }
        },
        2..=5 => {
            let asked = cell.get_or_init(|| attempt.succeed(&crew, &looking));
            whim.bear(asked).await.map(|told| answer(told.map(|value| Some(*value))))
        }
        _ => {
            let asked = cell.get_or_try_init(|| attempt.make(&crew, &looking));
            whim.bear(asked).await.map(|told| answer(told.map(|value| Some(*value))))
        }
    };
    match told {
        Some(Ok(value)) => looking.saw(value),
        Some(Err(why)) => looking.not(why),
        None => drop(looking),
    }
}

fn answer<E: Denial>(told: Result<Option<u64>, E>) -> Result<Option<u64>, Refusal> {
    told.map_err(|error| error.refusal())
}

/// How the value is made.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    takes: Duration,
    fails: bool,
}

/// The making was to fail.
#[derive(Debug)]
struct Failed;

impl Attempt {
    fn draw(task: &mut Task) -> Self {
        let (ttl, hold) = (task.crew.options.ttl, task.crew.options.hold);
        let takes = match task.random.below(50) {
            // Long enough for the lease to be renewed, or to run out.
            0 => (ttl * 6 / 5).min(Duration::from_millis(1_200)),
            _ => task.some_time(hold.max(Duration::from_millis(2))),
        };
        Self { takes, fails: task.random.percent(40) }
    }

    async fn succeed(self, crew: &Crew, looking: &Looking) -> u64 {
        let making = looking.make();
        tokio::time::sleep(self.takes).await;
        making.made(crew.value())
    }

    async fn make(self, crew: &Crew, looking: &Looking) -> Result<u64, Failed> {
        if self.fails {
            let making = looking.make();
            tokio::time::sleep(self.takes).await;
            drop(making);
            return Err(Failed);
        }
        Ok(self.succeed(crew, looking).await)
    }
}
