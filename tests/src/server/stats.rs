//! The server's own count of its commands.

use std::collections::BTreeMap;

/// The commands that the kit itself sends.
const OWN: [&str; 3] = ["auth", "info", "ping"];

/// How often each command was called, by its name in lower case: `evalsha`, `client|kill`.
///
/// Commands that a script calls are counted too, besides the script itself. Of etcd, the commands are the methods, as
/// their protocol spells them: `Txn`, `LeaseKeepAlive`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    calls: BTreeMap<String, u64>,
}

impl CommandStats {
    /// Reads the section `commandstats` of `INFO`; lines of another kind are passed over.
    pub fn parse(info: &str) -> Self {
        let calls = info.lines().filter_map(|line| {
            let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = figures.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
            Some((name.to_ascii_lowercase(), calls))
        });
        Self { calls: calls.collect() }
    }

    /// How often the command was called; zero if never.
    pub fn calls(&self, command: &str) -> u64 {
        self.calls.get(command).copied().unwrap_or(0)
    }

    /// All calls, without the few that the kit makes by itself: `auth`, `info`, `ping`.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, calls)| calls).sum()
    }

    /// The commands and their calls, without those of the kit, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.calls
            .iter()
            .map(|(name, calls)| (name.as_str(), *calls))
            .filter(|(name, _)| !OWN.contains(name))
    }

    /// The calls since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let calls = self.calls.iter().filter_map(|(name, calls)| {
            let more = calls.saturating_sub(earlier.calls(name));
            (more > 0).then(|| (name.clone(), more))
        });
        Self { calls: calls.collect() }
    }
}

impl FromIterator<(String, u64)> for CommandStats {
    fn from_iter<T: IntoIterator<Item = (String, u64)>>(calls: T) -> Self {
        Self { calls: calls.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Commandstats\r\n\
        cmdstat_evalsha:calls=12,usec=90,usec_per_call=7.50,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_client|kill:calls=2,usec=9,usec_per_call=4.50,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_info:calls=4,usec=9,usec_per_call=4.50,rejected_calls=0,failed_calls=0\r\n";

    #[test]
    fn calls_are_read_and_subtracted() {
        let stats = CommandStats::parse(INFO);
        assert_eq!((stats.calls("evalsha"), stats.calls("set")), (12, 0));
        assert_eq!(stats.total(), 14);
        let later = CommandStats::parse(&INFO.replace("calls=12", "calls=15"));
        assert_eq!(later.since(&stats).iter().collect::<Vec<_>>(), [("evalsha", 3)]);
    }
}
