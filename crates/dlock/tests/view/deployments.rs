//! The commands over several servers of Redis.

use lock_tests::{RedisCluster, Sentinels};

use crate::everything::the_commands_work;

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_work_over_a_cluster() {
    let cluster = RedisCluster::start(2, 0);
    the_commands_work(&cluster.url(), 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_work_over_servers_that_sentinels_watch() {
    let service = Sentinels::start(1, 1);
    the_commands_work(&service.url(), 20).await;
}
