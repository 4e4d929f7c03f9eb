//! Being the leader.

use std::sync::Arc;

use lock_tests::chaos::history::Way;

use super::ask;
use crate::worker::op::Subject;
use crate::worker::shelf::ELECTION;
use crate::worker::task::{Patience, Task};

pub(super) async fn act(task: &mut Task) {
    let subjects = [Subject { key: ELECTION, way: Way::Write }];
    let crew = Arc::clone(&task.crew);
    let (election, value) = (&crew.shelf.election, crew.name.as_str());
    let taken = ask!(task, &subjects, election.[campaign, campaign_timeout, try_campaign](value));
    if let Some(mut holding) = taken {
        task.visit(&mut holding).await;
        if task.random.percent(20)
            && let Some(leadership) = holding.guard()
            && leadership.update("still there").await.is_ok()
        {
            task.visit(&mut holding).await;
        }
        task.part_anywhere(holding).await;
    }
}
