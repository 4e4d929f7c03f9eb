//! Servers, links and workers: the targets of all faults.

mod link;
mod node;
mod other;
mod post;
mod remains;
mod rights;
mod site;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use link::Link;
pub use node::Node;
pub use other::Other;
pub use post::{Post, Stood};
pub use remains::Remains;
pub use site::Site;

pub(in crate::chaos) use node::Returns;

use super::resource::Resource;
use super::{Deployment, Plan};
use crate::{RedisServer, Worker, WorkerBuilder};

/// The kind of the workers.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the harness says it all")]
pub struct Cast {
    /// The program `lock-chaos`.
    pub program: PathBuf,
    /// The primitives that they take, as words joined by commas. `None`: all.
    pub primitives: Option<String>,
    /// The flaw of a lock that is broken on purpose, instead of the lock of the library.
    pub flaw: Option<String>,
}

/// Servers, links, workers and the protected resource. All end when this value is dropped.
#[derive(Debug)]
pub struct Stage {
    plan: Plan,
    // Workers end before the things they use.
    posts: Vec<Post>,
    nodes: Vec<Node>,
    others: Vec<Other>,
    site: Option<Site>,
    resource: Resource,
}

impl Stage {
    /// Starts everything that a plan needs. The history goes to this folder.
    ///
    /// # Panics
    ///
    /// If something does not start.
    pub fn set(plan: &Plan, folder: &Path, cast: &Cast) -> Self {
        let resource = match Resource::start(folder) {
            Ok(resource) => resource,
            Err(error) => panic!("no resource in {}: {error}", folder.display()),
        };
        let site = Site::start(plan.deployment, cast.flaw.is_some());
        let others = Other::start(plan.deployment);
        let elsewhere = site.is_some() || !others.is_empty();
        let servers = if elsewhere { 0 } else { plan.deployment.servers() };
        let nodes = started(servers, || Node::start(plan.deployment, cast.flaw.is_some()));
        if matches!(plan.deployment, Deployment::Quorum(_)) {
            init(&nodes, plan);
        }
        let posts = match plan.deployment {
            Deployment::Memory => vec![Post::fill(
                "m".to_owned(),
                Vec::new(),
                Vec::new(),
                options(plan, folder, cast).arg("--clients", plan.workers),
                Some(plan.workers),
            )],
            deployment => (0..plan.workers)
                .map(|number| {
                    let linked = site.as_ref().map_or(&[][..], Site::linked).iter();
                    let linked = linked.chain(nodes.iter().map(Node::server));
                    let linked =
                        linked.map(RedisServer::addr).chain(others.iter().map(Other::addr));
                    let links: Vec<_> = linked.map(Link::before).collect();
                    let urls = match (&site, others.first()) {
                        (Some(site), _) => vec![site.url(&links)],
                        (_, Some(other)) => vec![other.url_through(&links)],
                        _ => links.iter().map(|link| url(deployment, link)).collect(),
                    };
                    let options = options(plan, folder, cast);
                    Post::fill(format!("w{number}"), links, urls, options, None)
                })
                .collect(),
        };
        Self { plan: plan.clone(), posts, nodes, others, site, resource }
    }

    /// The plan for which it was set.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The servers.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The servers, if they are of another kind than Redis.
    pub(in crate::chaos) fn others(&self) -> &[Other] {
        &self.others
    }

    /// The servers of a deployment in which another server takes over.
    ///
    /// # Panics
    ///
    /// If the plan has another deployment.
    pub(in crate::chaos) fn site(&self) -> &Site {
        self.site.as_ref().expect("no server takes over in this deployment")
    }

    /// The places of the workers. Workers that share a memory backend have one place.
    pub fn posts(&self) -> &[Post] {
        &self.posts
    }

    /// The protected resource.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The place of the worker with this number in the plan, and its number there.
    pub(in crate::chaos) fn post(&self, worker: usize) -> (&Post, usize) {
        match self.plan.deployment {
            Deployment::Memory => (&self.posts[0], worker),
            _ => (&self.posts[worker], 0),
        }
    }

    /// Gives an order to a worker of the plan; `false` if it is not there.
    pub fn order(&self, worker: usize, order: &str) -> bool {
        let (post, number) = self.post(worker);
        match self.plan.deployment {
            Deployment::Memory => post.order(&format!("at {number} {order}")),
            _ => post.order(order),
        }
    }

    /// Makes all workers end their work and start nothing new, and then record what they use. `Err` names those that do
    /// not. Clients of one process share its files, so none of them records before all are at rest.
    ///
    /// # Errors
    ///
    /// If some have not come to rest within `limit`, or have ended.
    pub fn rest(&self, limit: Duration) -> Result<(), String> {
        self.all("rest", "rested", limit)?;
        self.all("uses", "used", limit)
    }

    /// Makes all workers start again after a rest.
    ///
    /// # Errors
    ///
    /// As [`rest`](Self::rest).
    pub fn go(&self, limit: Duration) -> Result<(), String> {
        self.all("go", "gone on", limit)
    }

    /// Makes one worker try everything while all are at rest.
    ///
    /// # Errors
    ///
    /// If it has not done so within `limit`, or has ended.
    pub fn probe(&self, limit: Duration) -> Result<(), String> {
        self.order(0, "probe");
        let post = self.post(0).0;
        post.hear("probed", limit).map(|_| ()).map_err(|why| format!("{:?}: {why}", post.clients()))
    }

    /// Makes all workers shut their locks down.
    ///
    /// # Errors
    ///
    /// As [`rest`](Self::rest).
    pub fn shut_down(&self, limit: Duration) -> Result<(), String> {
        self.all("shutdown", "shut", limit)
    }

    fn all(&self, order: &str, answer: &str, limit: Duration) -> Result<(), String> {
        let deadline = std::time::Instant::now() + limit;
        for post in &self.posts {
            post.order(order);
        }
        for post in &self.posts {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            post.hear(answer, left).map_err(|why| format!("{:?}: {why}", post.clients()))?;
        }
        Ok(())
    }

    /// The times when clients could do nothing.
    pub fn stood(&self) -> Vec<Stood> {
        self.posts.iter().flat_map(Post::stood).collect()
    }

    /// The processes of servers and workers that run.
    pub(in crate::chaos) fn processes(&self) -> Vec<u32> {
        let servers = self.nodes.iter().filter_map(Node::process);
        let servers = servers.chain(self.others.iter().flat_map(Other::processes));
        let site = self.site.iter().flat_map(Site::processes);
        servers.chain(site).chain(self.posts.iter().filter_map(Post::process)).collect()
    }

    /// The remains on the servers.
    ///
    /// # Panics
    ///
    /// If a server does not answer.
    pub fn remains(&self) -> Vec<Remains> {
        let site = self.site.iter().flat_map(Site::keepers);
        let servers = self.nodes.iter().map(Node::server).chain(site).map(Remains::on);
        // Each member of a cluster knows all.
        servers.chain(self.others.first().map(Other::remains)).collect()
    }
}

fn options(plan: &Plan, folder: &Path, cast: &Cast) -> WorkerBuilder {
    let mut options = Worker::builder(&cast.program)
        .command("worker")
        .arg("--folder", folder.display())
        .arg("--seed", plan.seed)
        .arg("--deployment", plan.deployment)
        .ttl(plan.ttl)
        .wait_limit(plan.wait_limit)
        .fair(plan.fair)
        .arg("--tasks", plan.tasks)
        .arg("--hold", plan.hold.as_millis())
        .arg("--careless", plan.careless)
        .arg("--party", plan.workers);
    if let Deployment::Quorum(_) = plan.deployment {
        options = options.node_timeout(plan.node_timeout).max_ttl(plan.max_ttl);
    }
    if let Some(primitives) = &cast.primitives {
        options = options.arg("--primitives", primitives);
    }
    if let Some(flaw) = &cast.flaw {
        options = options.arg("--flaw", flaw);
    }
    options
}

fn url(deployment: Deployment, link: &Link) -> String {
    let options = if deployment == Deployment::Plain { "?protocol=resp2" } else { "" };
    rights::url(link.proxy().addr(), options)
}

/// Starts several of a kind, all at once.
fn started<T: Send>(count: usize, start: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let starts: Vec<_> = (0..count).map(|_| scope.spawn(&start)).collect();
        let join = |start: std::thread::ScopedJoinHandle<'_, T>| match start.join() {
            Ok(started) => started,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        starts.into_iter().map(join).collect()
    })
}

/// How long a server may take to accept that it is new.
const INIT: Duration = Duration::from_secs(15);

/// Vouches for the nodes of a quorum, which are new.
fn init(nodes: &[Node], plan: &Plan) {
    let done = || -> Result<(), lock_core::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
        runtime.block_on(async {
            let mut quorum = lock_redlock::Redlock::builder();
            for node in nodes {
                let backend = lock_redis::RedisBackend::open(node.server().url())?;
                // As the workers name the nodes.
                quorum = quorum.nodes([backend]);
            }
            let max_ttl = lock_core::Ttl::new(plan.max_ttl)?;
            // However busy the machine is.
            quorum.max_ttl(max_ttl).node_timeout(INIT).build().await?.init().await
        })
    };
    if let Err(error) = done() {
        panic!("the servers cannot be made a quorum: {error:?}");
    }
}
