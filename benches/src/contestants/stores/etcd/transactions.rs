//! The least that a lock in etcd must do.

use std::fmt;

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::http;
use crate::{Contestant, Failure};

/// How long the one lease lasts, in seconds: longer than the benchmark.
const LEASE: i64 = 3_600;

/// Two transactions for one key over one connection, with one lease for all keys: put the key if it is not there, and delete
/// the key if it is there.
pub(super) struct Transactions {
    channel: Channel,
    lease: i64,
}

impl Transactions {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_shared(http(url))?.tcp_nodelay(true);
        let mut client = Self { channel: endpoint.connect().await?, lease: 0 };
        let granted: LeaseState =
            client.unary("/etcdserverpb.Lease/LeaseGrant", LeaseGrant { ttl: LEASE }).await?;
        client.lease = granted.id;
        Ok(client)
    }

    async fn unary<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Failure>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await?;
        let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<Q, A>::default());
        Ok(grpc.unary(tonic::Request::new(question), path, codec).await?.into_inner())
    }

    /// Carries out the operation if the version of the key compares so with zero.
    async fn change(&self, key: &str, result: Order, change: Change) -> Result<(), Failure> {
        let (key, target, version) = (key.as_bytes().to_vec(), Target::Version.into(), 0);
        let compare = vec![Compare { result: result.into(), target, key, version: Some(version) }];
        let transaction =
            Transaction { compare, success: vec![Operation { change: Some(change) }] };
        let answer: Transacted = self.unary("/etcdserverpb.KV/Txn", transaction).await?;
        if answer.succeeded { Ok(()) } else { Err("the key is not as it was left".into()) }
    }
}

impl fmt::Debug for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactions").finish_non_exhaustive()
    }
}

impl Contestant for Transactions {
    type Key = String;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(format!("floor/{name}"))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let (name, owner) = (key.as_bytes().to_vec(), vec![7; 16]);
        let put = Put { key: name.clone(), value: owner, lease: self.lease };
        self.change(key, Order::Equal, Change::Put(put)).await?;
        section.await;
        self.change(key, Order::Greater, Change::Delete(Delete { key: name })).await
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
}

#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    #[prost(enumeration = "Order", tag = "1")]
    result: i32,
    #[prost(enumeration = "Target", tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    /// One of several alternatives, so it is sent even if it is zero.
    #[prost(int64, optional, tag = "4")]
    version: Option<i64>,
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
struct Operation {
    #[prost(oneof = "Change", tags = "2, 3")]
    change: Option<Change>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Change {
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(Delete),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Transaction {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Operation>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Transacted {
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
