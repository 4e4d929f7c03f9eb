//! What each member that a URL names says about itself, without a judgement.

use futures::future::join_all;
use lock_core::{Error, ErrorKind};
use tonic::transport::Endpoint;

use super::calls::Link;
use super::endpoints::name;
use super::messages::{Members, Nothing, Status};
use super::wire::Wire;
use crate::failure;

/// A member that the URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Host and port.
    pub(crate) name: String,
    /// What it told, or why it told nothing.
    pub(crate) told: Result<Told, String>,
}

/// What a member tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The number of its cluster.
    pub(crate) cluster: u64,
    pub(crate) version: String,
    pub(crate) has_leader: bool,
    pub(crate) is_learner: bool,
    /// The bytes of its data.
    pub(crate) size: i64,
    /// What is wrong with it in its own words, alarms of the cluster among them.
    pub(crate) errors: Vec<String>,
}

/// What the members tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) hosts: Vec<Host>,
    /// How many members of the cluster vote. `None` if no member tells.
    pub(crate) voters: Option<usize>,
}

impl Link {
    /// Asks all members that the URL names, each on a connection of its own. A member of any version answers.
    ///
    /// An error means that no member answers, or that one does not accept the user.
    pub(crate) async fn survey(&self) -> Result<Survey, Error> {
        let asked = join_all(self.endpoints.iter().map(|endpoint| self.ask(endpoint))).await;
        let (mut hosts, mut voters, mut failure) = (Vec::new(), None, None);
        for (endpoint, answer) in self.endpoints.iter().zip(asked) {
            let told = match answer {
                Ok((told, count)) => {
                    voters = voters.or(count);
                    Ok(told)
                }
                Err(error) if error.kind() == ErrorKind::Denied => return Err(error),
                Err(error) => {
                    let why = error.to_string();
                    failure = Some(error);
                    Err(why)
                }
            };
            hosts.push(Host { name: name(endpoint), told });
        }
        match failure {
            Some(error) if hosts.iter().all(|host| host.told.is_err()) => Err(error),
            _ => Ok(Survey { hosts, voters }),
        }
    }

    /// Asks one member about itself, and for the number of members that vote.
    async fn ask(&self, endpoint: &Endpoint) -> Result<(Told, Option<usize>), Error> {
        let asking = async {
            let wire = Wire::dial(endpoint, self.user.as_ref()).await?;
            let told = Told::from(wire.status().await?);
            let members = wire.unary("/etcdserverpb.Cluster/MemberList", &Nothing {}).await;
            let voters = members.ok().map(|Members { members }| {
                members.iter().filter(|member| !member.is_learner).count()
            });
            Ok((told, voters))
        };
        tokio::time::timeout(self.limit, asking).await.unwrap_or_else(|_| Err(failure::timeout()))
    }
}

impl From<Status> for Told {
    fn from(status: Status) -> Self {
        Self {
            cluster: status.header.map_or(0, |header| header.cluster),
            version: status.version,
            has_leader: status.leader != 0,
            is_learner: status.is_learner,
            size: status.db_size,
            errors: status.errors,
        }
    }
}
