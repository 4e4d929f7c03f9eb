//! The messages of etcd's protocol, as far as this crate needs them. The numbers are those of `rpc.proto` and
//! `kv.proto` of etcd. A field that is not declared is skipped.

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
    /// The number of elections so far, roughly.
    #[prost(uint64, tag = "4")]
    pub(crate) term: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    /// The lease to which the key is attached. 0: none.
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The first key that is not meant. Empty for one key.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ranged {
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Put {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Nothing {}

/// A comparison: all must hold for the first half of a transaction to be carried out.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Compare {
    /// 0: equal, 1: greater.
    #[prost(int32, tag = "1")]
    pub(crate) result: i32,
    /// 0: version, 2: modification, 3: value.
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(oneof = "Against", tags = "4, 6, 7")]
    pub(crate) against: Option<Against>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Against {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "6")]
    Modification(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Operation {
    #[prost(oneof = "Request", tags = "1, 2")]
    pub(crate) request: Option<Request>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(Range),
    #[prost(message, tag = "2")]
    Put(Put),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Transaction {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<Operation>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<Operation>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Transacted {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<Answer>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Answer {
    #[prost(oneof = "Response", tags = "1, 2")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(Ranged),
    #[prost(message, tag = "2")]
    Put(Nothing),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct LeaseGrant {
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
    /// 0: the server chooses.
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
}

/// The answer to a grant, a renewal and a question for the time that is left.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LeaseState {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    /// In seconds. Not positive if there is no such lease.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LeaseId {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "WatchCommand", tags = "1, 2")]
    pub(crate) command: Option<WatchCommand>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum WatchCommand {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    #[prost(message, tag = "2")]
    Cancel(WatchCancel),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    /// 0: from now on.
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    /// Chosen by the client.
    #[prost(int64, tag = "7")]
    pub(crate) watch_id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(crate) watch_id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Watched {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(crate) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Event {
    /// 0: put, 1: delete.
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Credentials {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Token {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    /// In bytes.
    #[prost(int64, tag = "3")]
    pub(crate) db_size: i64,
    /// 0: the member knows of no leader.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    /// How many entries of the log the member has carried out.
    #[prost(uint64, tag = "7")]
    pub(crate) applied: u64,
    /// In words. Alarms are among them.
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
    #[prost(bool, tag = "10")]
    pub(crate) is_learner: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Members {
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<Member>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Member {
    #[prost(bool, tag = "5")]
    pub(crate) is_learner: bool,
}

impl Compare {
    /// The key was last changed at this revision. 0: it does not exist.
    pub(crate) fn unchanged(key: Vec<u8>, revision: i64) -> Self {
        Self { result: 0, target: 2, key, against: Some(Against::Modification(revision)) }
    }

    /// The key has this value.
    pub(crate) fn holds(key: Vec<u8>, value: Vec<u8>) -> Self {
        Self { result: 0, target: 3, key, against: Some(Against::Value(value)) }
    }

    /// The key exists.
    pub(crate) fn exists(key: Vec<u8>) -> Self {
        Self { result: 1, target: 0, key, against: Some(Against::Version(0)) }
    }
}

impl Operation {
    pub(crate) fn get(key: Vec<u8>) -> Self {
        Self::range(Range { key, ..Range::default() })
    }

    pub(crate) fn range(range: Range) -> Self {
        Self { request: Some(Request::Range(range)) }
    }

    pub(crate) fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> Self {
        Self { request: Some(Request::Put(Put { key, value, lease })) }
    }
}
