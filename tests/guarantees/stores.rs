//! The stores of the table.

use lock_core::AnyBackend;
use lock_core::memory::MemoryBackend;
use lock_etcd::EtcdBackend;
use lock_postgres::PostgresBackend;
use lock_tests::RedisServer;

/// A row. A backend does not know what its servers forget.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    /// The condition under which at most one holder has an exclusive lock.
    pub(crate) exclusive: &'static str,
    /// When the tokens of exclusive holders increase.
    pub(crate) tokens: &'static str,
    pub(crate) backend: AnyBackend,
}

/// The name of each store, when its exclusive locks hold, and when its tokens increase.
const PROMISES: [[&str; 3]; 6] = [
    ["memory", "within the process", "always"],
    [
        "one Redis server",
        "while it keeps its data, or is in quarantine after a restart (`data_quarantine`)",
        "also after `FLUSHALL` and a restart, while its clock is not set back",
    ],
    [
        "sentinels or a cluster",
        "while the servers keep their data and no server fails over; with `confirm`, also through failovers to counted replicas",
        "under the conditions on the left",
    ],
    [
        "a quorum of 3, 5 or 7 servers",
        "while every server that votes keeps its data, or is in quarantine",
        "also after a server loses its data, while the clocks of the clients are about right and no clock of a \
         server is set back",
    ],
    [
        "a PostgreSQL database",
        "while it keeps what it has committed; with `fence::check`, at most one writer in any case",
        "also after a restore, while its clock is not set back",
    ],
    [
        "an etcd cluster",
        "while a majority of its members keeps what it has committed, through failovers too, unless a leader \
         goes on after a stop that was longer than a lease",
        "also after a restore, while the clocks of the clients are about right",
    ],
];

/// To open a quorum, the client asks the servers for their identities. Other backends connect at their first use.
pub(crate) struct Servers(Vec<RedisServer>);

impl Servers {
    pub(crate) async fn start() -> Self {
        let servers = Self((0..3).map(|_| RedisServer::start()).collect());
        lock_any::init(&servers.quorum()).await.unwrap();
        servers
    }

    fn quorum(&self) -> String {
        let hosts = self.0.iter().map(|server| server.addr().to_string());
        format!("redlock+redis://{}", hosts.collect::<Vec<_>>().join(","))
    }

    pub(crate) async fn stores(&self) -> Vec<Store> {
        let redis = lock_any::open("redis://127.0.0.1").await.unwrap();
        let quorum = lock_any::open(&self.quorum()).await.unwrap();
        let postgres = PostgresBackend::open("postgres://127.0.0.1/app").unwrap();
        let etcd = EtcdBackend::open("etcd://127.0.0.1").unwrap();
        let backends = [
            AnyBackend::new(MemoryBackend::new()),
            redis.clone(),
            redis,
            quorum,
            AnyBackend::new(postgres),
            AnyBackend::new(etcd),
        ];
        let rows = PROMISES.into_iter().zip(backends);
        rows.map(|([name, exclusive, tokens], backend)| Store { name, exclusive, tokens, backend })
            .collect()
    }
}
