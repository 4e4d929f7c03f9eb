//! What no server tells alone.

use lock_core::check::{Finding, Findings, Severity};

use super::super::facts::Deployment;

pub(super) fn findings(deployment: &Deployment) -> Vec<Finding> {
    let mut found = Findings::at(&deployment.name);
    if deployment.uncovered > 0 {
        found.add(
            Severity::Critical,
            "slots-uncovered",
            format!("{} slots of the cluster have no server", deployment.uncovered),
            "no lock in these slots can be acquired, renewed or released",
            "bring back the servers of these slots, or give the slots to others: `redis-cli --cluster fix`",
        );
    }
    if deployment.is_unconfirmed {
        found.add(
            Severity::Warning,
            "failover-unconfirmed",
            "another server may take over, and no replica confirms a grant",
            "a failover, even a planned one, may lose locks and the order of their tokens, and the old primary may take \
             writes for seconds",
            "have the replicas confirm grants, use a quorum of servers that do not fail over, or check fencing tokens where \
             the lock protects data",
        );
    }
    found.into_list()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_judged_as_a_whole() {
        let deployment = |is_unconfirmed, uncovered| {
            let name = "a:1,b:2".to_owned();
            let (sentinels, servers) = (Vec::new(), Vec::new());
            Deployment { name, is_unconfirmed, uncovered, sentinels, servers }
        };
        let codes =
            |it: Deployment| findings(&it).into_iter().map(|it| it.code).collect::<Vec<_>>();
        assert_eq!(codes(deployment(false, 0)), [""; 0]);
        assert_eq!(codes(deployment(true, 0)), ["failover-unconfirmed"]);
        assert_eq!(codes(deployment(true, 7)), ["slots-uncovered", "failover-unconfirmed"]);
    }
}
