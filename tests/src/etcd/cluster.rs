//! A cluster of etcd servers.

use super::{EtcdServer, START_LIMIT, any_version};
use crate::eventually;

/// A cluster of etcd servers on free loopback ports. They die with this value.
///
/// # Examples
///
/// ```
/// let cluster = lock_tests::EtcdCluster::start();
/// let old = cluster.leader();
/// cluster.members()[old].kill();
/// assert_ne!(cluster.leader(), old);
/// ```
#[derive(Debug)]
pub struct EtcdCluster {
    members: [EtcdServer; 3],
}

impl EtcdCluster {
    /// Starts three members that do not wait for the disk. Returns once all serve.
    ///
    /// # Panics
    ///
    /// As [`EtcdServer::start`].
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// As above, with these further options of the command line for each member.
    ///
    /// # Panics
    ///
    /// As [`EtcdServer::start`].
    #[track_caller]
    pub fn with(options: &[&str]) -> Self {
        let options = [&["--unsafe-no-fsync"], options].concat();
        let mut members = ["a", "b", "c"].map(|name| EtcdServer::new(name, &options));
        let all = members.each_ref().map(EtcdServer::as_member).join(",");
        for member in &mut members {
            member.options.push(format!("--initial-cluster={all}"));
            member.spawn();
        }
        for member in &members {
            member.wait_until("serve", EtcdServer::is_healthy);
        }
        Self { members }
    }

    /// The members, in an order that does not change.
    pub fn members(&self) -> &[EtcdServer; 3] {
        &self.members
    }

    /// The members, each by itself.
    pub fn into_members(self) -> [EtcdServer; 3] {
        self.members
    }

    /// The URL with all members.
    pub fn url(&self) -> String {
        format!("etcd://{}", self.members.each_ref().map(|it| it.addr().to_string()).join(","))
    }

    /// The URL for locks of clients that accept any version, though some versions end leases early after a change of
    /// the leader.
    pub fn locks(&self) -> String {
        any_version(&self.url())
    }

    /// The place of the leader among the [`members`](Self::members) that run. Waits until one of them leads and the
    /// cluster serves.
    ///
    /// # Panics
    ///
    /// If none comes to lead.
    #[track_caller]
    pub fn leader(&self) -> usize {
        let mut leader = None;
        eventually("a member leads", START_LIMIT, || {
            let leads = |it: &EtcdServer| it.is_running() && it.leads() && it.is_healthy();
            leader = self.members.iter().position(leads);
            leader.is_some()
        });
        leader.expect("a member leads")
    }

    /// Makes another member the leader.
    ///
    /// # Panics
    ///
    /// If that does not happen.
    #[track_caller]
    pub fn move_leader(&self) -> usize {
        let old = self.leader();
        let new = (old + 1) % self.members.len();
        if let Err(why) = self.members[old].pass_lead(&self.members[new]) {
            panic!("the leader does not change: {why}");
        }
        eventually("another member leads", START_LIMIT, || self.leader() == new);
        new
    }
}
