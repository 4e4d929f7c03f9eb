//! A bare client of etcd: one connection, and no more of the protocol than the floors of a lock need.

use std::fmt;

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::http;
use crate::Failure;

/// How long a lease lasts, in seconds: longer than the benchmark.
const LEASE: i64 = 3_600;

/// One connection.
#[derive(Clone)]
pub(super) struct Bare(Channel);

impl Bare {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Endpoint::from_shared(http(url))?.tcp_nodelay(true).connect().await?))
    }

    /// A lease that outlasts the benchmark.
    pub(super) async fn lease(&self) -> Result<i64, Failure> {
        let asked = LeaseGrant { ttl: LEASE };
        let granted: LeaseState = self.unary("/etcdserverpb.Lease/LeaseGrant", asked).await?;
        Ok(granted.id)
    }

    /// Carries a transaction out. Returns its revision.
    pub(super) async fn transact(&self, transaction: Transaction) -> Result<i64, Failure> {
        let answer: Transacted = self.unary("/etcdserverpb.KV/Txn", transaction).await?;
        let revision = answer.header.map(|header| header.revision);
        match answer.succeeded {
            true => Ok(revision.ok_or("an answer without a revision")?),
            false => Err("the key is not as it was left".into()),
        }
    }

    async fn unary<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Failure>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await?;
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<Q, A>::default());
        Ok(grpc.unary(tonic::Request::new(question), path, codec).await?.into_inner())
    }
}

impl fmt::Debug for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bare").finish_non_exhaustive()
    }
}

impl Compare {
    /// The key is there, or is not.
    pub(super) fn is_there(key: &[u8], there: bool) -> Self {
        let result = if there { Order::Greater } else { Order::Equal };
        let (target, against) = (Target::Version, Against::Version(0));
        Self::of(result, target, key, against)
    }

    /// The key was last changed at this revision; 0 if it is not there.
    pub(super) fn unchanged(key: &[u8], revision: i64) -> Self {
        Self::of(Order::Equal, Target::Modification, key, Against::Modification(revision))
    }

    fn of(result: Order, target: Target, key: &[u8], against: Against) -> Self {
        let (result, target) = (result.into(), target.into());
        Self { result, target, key: key.to_vec(), against: Some(against) }
    }
}

impl Operation {
    pub(super) fn get(key: &[u8]) -> Self {
        Self::of(Change::Range(Range { key: key.to_vec(), keys_only: false }))
    }

    pub(super) fn look(key: &[u8]) -> Self {
        Self::of(Change::Range(Range { key: key.to_vec(), keys_only: true }))
    }

    pub(super) fn put(key: &[u8], value: &[u8], lease: i64) -> Self {
        Self::of(Change::Put(Put { key: key.to_vec(), value: value.to_vec(), lease }))
    }

    pub(super) fn delete(key: &[u8]) -> Self {
        Self::of(Change::Delete(Delete { key: key.to_vec() }))
    }

    fn of(change: Change) -> Self {
        Self { change: Some(change) }
    }
}

/// How a value compares with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum Order {
    Equal = 0,
    Greater = 1,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum Target {
    Version = 0,
    Modification = 2,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Compare {
    #[prost(enumeration = "Order", tag = "1")]
    result: i32,
    #[prost(enumeration = "Target", tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(oneof = "Against", tags = "4, 6")]
    against: Option<Against>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Against {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "6")]
    Modification(i64),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Range {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bool, tag = "8")]
    keys_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Operation {
    #[prost(oneof = "Change", tags = "1, 2, 3")]
    change: Option<Change>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Change {
    #[prost(message, tag = "1")]
    Range(Range),
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(Delete),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Transaction {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<Operation>,
    /// What is done if a comparison does not hold.
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<Operation>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Transacted {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrant {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseState {
    #[prost(int64, tag = "2")]
    id: i64,
}
