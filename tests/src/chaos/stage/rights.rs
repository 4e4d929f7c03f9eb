//! The rights of the workers on a server.

use crate::chaos::Rights;

/// The user of the workers.
pub(super) const USER: &str = "locks";

const PASSWORD: &str = "chaos";

/// The rights that the library asks for.
const LEAST: &str = "resetkeys ~lock:* resetchannels &lock:* &__keyspace@*__:lock:* -@all \
    +evalsha +script|load +get +getrange +set +del +exists +pttl +pexpire +time +setrange +publish +subscribe \
    +unsubscribe +llen +lindex +lrange +lpop +lpush +rpush +lrem +hget +hset +hdel +hmget \
    +hincrby +zadd +zrem +zscore +zcard +zcount +zrange +zrevrange +zrangebyscore +info +config|get";

/// All rights, for a lock that is not the library's.
const ALL: &str = "allkeys allchannels allcommands";

/// The rules for the user, in the form of `ACL SETUSER`, without the rights that were taken away.
pub(super) fn rules(all: bool, without: &[Rights]) -> String {
    let mut rules = format!("on >{PASSWORD} {}", if all { ALL } else { LEAST });
    for rights in without {
        rules.push_str(match rights {
            Rights::Scripts => " -eval -evalsha -script|load",
            // A client that has subscribed is disconnected.
            Rights::Messages => " -publish resetchannels",
            Rights::Renewals => " -pexpire",
        });
    }
    rules
}

/// These words for `ACL SETUSER`, which forgets all earlier rules.
pub(super) fn set_user(rules: &str) -> Vec<String> {
    let begin = ["ACL", "SETUSER", USER, "reset"].map(str::to_owned);
    begin.into_iter().chain(rules.split_ascii_whitespace().map(str::to_owned)).collect()
}

/// The user and the password of the workers, as they stand in a URL.
pub(super) fn login() -> String {
    format!("{USER}:{PASSWORD}@")
}

/// The URL of a server for the workers.
pub(super) fn url(addr: std::net::SocketAddr, options: &str) -> String {
    format!("redis://{}{addr}/{options}", login())
}
