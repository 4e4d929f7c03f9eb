//! The load of a server.

use std::time::Duration;

use lock_tests::RedisServer;

/// The time that a server has spent since it began, by its own account.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ServerLoad {
    /// The processor time of its threads.
    pub cpu: Duration,
    /// The part of it in which the server ran scripts.
    pub scripts: Duration,
}

impl ServerLoad {
    /// Asks the server.
    pub fn of(server: &RedisServer) -> Self {
        Self::parse(&server.cli(&["INFO", "everything"]).text())
    }

    /// The time since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            scripts: self.scripts.saturating_sub(earlier.scripts),
        }
    }

    pub(crate) fn parse(info: &str) -> Self {
        let mut load = Self::default();
        for (name, figure) in info.lines().filter_map(|line| line.split_once(':')) {
            match name {
                "used_cpu_user" | "used_cpu_sys" => {
                    let seconds = figure.trim().parse().unwrap_or(0.0);
                    load.cpu += Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
                }
                "cmdstat_evalsha" | "cmdstat_eval" | "cmdstat_fcall" => {
                    let usec = figure.split(',').find_map(|it| it.strip_prefix("usec="));
                    let usec = usec.and_then(|usec| usec.parse().ok()).unwrap_or(0);
                    load.scripts += Duration::from_micros(usec);
                }
                _ => {}
            }
        }
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_read() {
        let load = ServerLoad::parse(
            "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:0.25\r\nused_cpu_sys_children:9\r\n\
             cmdstat_evalsha:calls=12,usec=90,usec_per_call=7.50\r\ncmdstat_get:calls=1,usec=4\r\n",
        );
        assert_eq!(load.cpu, Duration::from_millis(1_750));
        assert_eq!(load.scripts, Duration::from_micros(90));
        assert_eq!(load.since(load).cpu, Duration::ZERO);
    }
}
