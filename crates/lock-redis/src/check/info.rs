//! What `INFO` says.

use std::collections::BTreeMap;

/// The lines of `INFO`, of the form `field:value`.
#[derive(Clone, Debug, Default)]
pub(super) struct Info(BTreeMap<String, String>);

/// A replica, as its master shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) address: String,
    pub(super) state: String,
    /// The seconds since its last answer.
    pub(super) lag: Option<u64>,
}

impl Info {
    /// Reads the lines. People read the values line by line, so control characters are left out.
    pub(super) fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        let clean = |text: &str| text.chars().filter(|it| !it.is_control()).collect();
        Self(pairs.map(|(field, value)| (clean(field), clean(value))).collect())
    }

    pub(super) fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.get(field)?.parse().ok()
    }

    /// The version of Valkey or of Redis: Valkey also names the version of Redis with which it is compatible.
    pub(super) fn version(&self) -> Option<&str> {
        self.get("valkey_version").or_else(|| self.get("redis_version"))
    }

    /// `standalone`, `cluster` or `sentinel`.
    pub(super) fn mode(&self) -> Option<&str> {
        self.get("server_mode").or_else(|| self.get("redis_mode"))
    }

    /// The replicas that are connected to this server.
    pub(super) fn replicas(&self) -> Vec<Replica> {
        let lines = self.0.iter().filter(|(field, _)| {
            let number = field.strip_prefix("slave").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        lines.map(|(_, line)| Replica::parse(line)).collect()
    }

    /// How many calls of scripts there were, and how many microseconds they took in all. From the section
    /// `commandstats`.
    pub(super) fn scripts(&self) -> (u64, u64) {
        let stats = ["cmdstat_evalsha", "cmdstat_eval"].into_iter().filter_map(|it| self.get(it));
        stats.fold((0, 0), |(calls, micros), line| {
            let part = |name| part(line, name).and_then(|it| it.parse().ok()).unwrap_or(0_u64);
            (calls.saturating_add(part("calls")), micros.saturating_add(part("usec")))
        })
    }
}

impl Replica {
    /// Reads `ip=127.0.0.1,port=6380,state=online,offset=14,lag=0`.
    fn parse(line: &str) -> Self {
        let text = |name| part(line, name).unwrap_or("?");
        Self {
            address: format!("{}:{}", text("ip"), text("port")),
            state: text("state").to_owned(),
            lag: part(line, "lag").and_then(|lag| lag.parse().ok()),
        }
    }
}

/// The value of a part of a line `name=value,name=value`.
fn part<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = line.split(',').filter_map(|part| part.split_once('='));
    parts.find_map(|(it, value)| (it == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[test]
    fn the_version_of_valkey_comes_before_that_of_redis() {
        let both = Info::parse(b"# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.0\r\n");
        assert_eq!(both.version(), Some("8.0"));
        assert_eq!(Info::parse(b"redis_version:7.0.15").version(), Some("7.0.15"));
        assert_eq!(Info::parse(b"redis_version_old:7\r\nxredis_version:8\r\n").version(), None);
    }

    #[test]
    fn replicas_and_scripts_are_read() {
        let info = Info::parse(
            b"connected_slaves:2\r\nslave0:ip=10.0.0.1,port=6380,state=online,offset=1,lag=3\r\n\
              slave10:state=wait_bgsave\r\nslave_repl_offset:5\r\nslaves:1\r\n\
              cmdstat_evalsha:calls=10,usec=90,usec_per_call=9.00\r\ncmdstat_eval:calls=2,usec=10\r\n",
        );
        let replicas = info.replicas();
        let first =
            Replica { address: "10.0.0.1:6380".into(), state: "online".into(), lag: Some(3) };
        assert_eq!(replicas[0], first);
        assert_eq!(
            (replicas.len(), &*replicas[1].state, replicas[1].lag),
            (2, "wait_bgsave", None)
        );
        assert_eq!((info.number("connected_slaves"), info.scripts()), (Some(2), (12, 100)));
    }

    proptest! {
        #[test]
        fn each_fact_about_the_server_fits_in_a_line(
            pieces in prop::collection::vec(prop_oneof![
                select(vec![
                    "redis_version", "slave0", "cmdstat_eval", ":", "=", ",", "ip", "lag", "calls", "99999999999999999999",
                    "\r\n", "\n", "\r", "\u{1b}[2J", "7.0",
                ]).prop_map(|piece| piece.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..4),
            ], 0..16),
        ) {
            let info = Info::parse(&pieces.concat());
            info.scripts();
            let replicas = info.replicas();
            let shown = replicas.iter().flat_map(|it| [&*it.address, &*it.state]);
            for value in info.version().into_iter().chain(shown) {
                prop_assert!(!value.chars().any(char::is_control), "{:?}", value);
            }
        }
    }
}
