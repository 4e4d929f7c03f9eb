//! Faults: each has its effect on its target alone, and is healed.

mod links;
mod servers;
mod workers;

use std::thread;
use std::time::{Duration, Instant};

use lock_tests::chaos::history::{Deed, read};
use lock_tests::chaos::stage::{Cast, Stage};
use lock_tests::chaos::{Carried, Deployment, NEMESIS, Nemesis, Plan, Step};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

/// Long enough for anything that a test does meanwhile.
const LONG: Duration = Duration::from_secs(600);

/// A stage on which steps run while a test observes.
struct Scene {
    stage: Stage,
    folder: TempDir,
}

impl Scene {
    fn of(deployment: Deployment, steps: Vec<Step>) -> Self {
        let mut plan = Plan::of(deployment, steps);
        (plan.workers, plan.tasks) = (2, 1);
        let folder = TempDir::with_prefix("chaos-").unwrap();
        let cast = Cast {
            program: env!("CARGO_BIN_EXE_lock-chaos").into(),
            primitives: Some("mutex".to_owned()),
            flaw: None,
        };
        let stage = Stage::set(&plan, folder.path(), &cast);
        Self { stage, folder }
    }

    /// One server, whose data nothing else changes: the workers are stopped.
    fn quiet(steps: Vec<Step>) -> Self {
        let scene = Self::of(Deployment::Redis, steps);
        scene.stage.rest(LIMIT).unwrap();
        scene
    }

    /// Observes while the steps run. They are healed at the end, if not earlier.
    fn during(&self, look: impl FnOnce()) -> Vec<Carried> {
        let nemesis = Nemesis::new(self.folder.path()).unwrap();
        let carried = thread::scope(|scope| {
            let running = scope.spawn(|| nemesis.run(&self.stage, Instant::now()));
            // Also when an assertion of the test fails.
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
            nemesis.stop();
            let carried = running.join().unwrap();
            seen.map_err(|panic| std::panic::resume_unwind(panic)).map(|()| carried).unwrap()
        });
        self.is_written_down(&carried);
        carried
    }

    /// Runs the steps to their end.
    fn until_over(&self) -> Vec<Carried> {
        let nemesis = Nemesis::new(self.folder.path()).unwrap();
        let carried = nemesis.run(&self.stage, Instant::now());
        self.is_written_down(&carried);
        carried
    }

    fn is_written_down(&self, carried: &[Carried]) {
        let steps = &self.stage.plan().steps;
        let events = read(self.folder.path()).unwrap();
        let written: Vec<_> = events.iter().filter(|event| event.client == NEMESIS).collect();
        for it in carried {
            assert!(it.began <= it.healed);
            let step = u32::try_from(it.step).unwrap();
            let fault = Deed::Fault { step, what: steps[it.step].what() };
            for (at, deed) in [(it.began, fault), (it.healed, Deed::Healed { step })] {
                assert!(written.iter().any(|event| (event.at, &event.deed) == (at, &deed)));
            }
        }
    }
}

#[test]
fn a_drawn_plan_is_carried_out_step_by_step() {
    let mut plan = Plan::draw(3, &lock_tests::chaos::Scope::turn(3, 3));
    println!("{plan}");
    (plan.workers, plan.tasks) = (3, 2);
    for step in &mut plan.steps {
        step.workers.retain(|worker| *worker < 3);
    }
    let folder = TempDir::with_prefix("chaos-").unwrap();
    let program = env!("CARGO_BIN_EXE_lock-chaos").into();
    let stage = Stage::set(&plan, folder.path(), &Cast { program, primitives: None, flaw: None });
    let nemesis = Nemesis::new(folder.path()).unwrap();
    let begin = Instant::now();
    let carried = nemesis.run(&stage, begin);
    assert!(begin.elapsed() >= plan.healed());
    let order: Vec<_> = carried.iter().map(|it| it.step).collect();
    assert_eq!(order, (0..plan.steps.len()).collect::<Vec<_>>());
    for it in &carried {
        let lasted = it.healed.saturating_duration_since(it.began);
        assert!(lasted >= plan.steps[it.step].lasts && it.effective, "{}", plan.steps[it.step]);
    }
    stage.rest(LIMIT).unwrap();
    stage.shut_down(LIMIT).unwrap();
    for post in stage.posts() {
        assert!(post.is_alive() && post.complaints().is_empty(), "{:?}", post.complaints());
    }
    assert_eq!(stage.remains().len(), stage.nodes().len());
}
