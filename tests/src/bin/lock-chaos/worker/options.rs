//! The options of a worker.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lock_tests::chaos::Deployment;

/// The command line of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The folder of the events and of the resource's socket.
    pub(crate) folder: PathBuf,
    /// The name of the client, and of its file.
    pub(crate) client: String,
    /// The seed of the tasks' work, together with the name.
    pub(crate) seed: u64,
    pub(crate) deployment: Deployment,
    /// One for each server.
    pub(crate) urls: Vec<String>,
    pub(crate) ttl: Duration,
    /// The longest wait of any acquisition.
    pub(crate) wait_limit: Duration,
    /// How long a server may take to answer. By default that of the library.
    pub(crate) node_timeout: Option<Duration>,
    /// The longest lease that the nodes of a quorum grant.
    pub(crate) max_ttl: Option<Duration>,
    /// Whether a lock is released to the store after each holder as soon as another process waits.
    pub(crate) fair: bool,
    /// The number of tasks of a client.
    pub(crate) tasks: u32,
    /// The longest time of most critical sections.
    pub(crate) hold: Duration,
    /// How many of a hundred writers do not check their guards before they write.
    pub(crate) careless: usize,
    pub(crate) primitives: Vec<Primitive>,
    /// The flaw of the lock. Without one it is the lock of the library.
    pub(crate) flaw: Option<String>,
    /// The number of clients of the process. For the memory backend, which no two processes share.
    pub(crate) clients: usize,
    /// The number of owners that open the barrier.
    pub(crate) party: u32,
}

/// The primitives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Primitive {
    Mutex,
    RwLock,
    Semaphore,
    Reentrant,
    /// Two mutexes at once.
    Together,
    Slots,
    Barrier,
    Election,
    /// A value that one task makes and all read.
    Cell,
    /// A mutex whose value is stored beside it.
    Stored,
}

impl Primitive {
    const ALL: [(Self, &'static str); 10] = [
        (Self::Mutex, "mutex"),
        (Self::RwLock, "rwlock"),
        (Self::Semaphore, "semaphore"),
        (Self::Reentrant, "reentrant"),
        (Self::Together, "together"),
        (Self::Slots, "slots"),
        (Self::Barrier, "barrier"),
        (Self::Election, "election"),
        (Self::Cell, "cell"),
        (Self::Stored, "stored"),
    ];

    /// Its weight among the others: higher if there are several locks of it.
    pub(crate) fn weight(self) -> usize {
        match self {
            Self::Mutex | Self::Stored => 3,
            Self::RwLock => 5,
            Self::Semaphore => 4,
            Self::Reentrant | Self::Slots | Self::Cell => 2,
            Self::Together | Self::Barrier | Self::Election => 1,
        }
    }

    /// Whether this deployment has it.
    fn is_over(self, deployment: Deployment) -> bool {
        // A barrier counts its arrivals.
        deployment.counts() || !matches!(self, Self::Semaphore | Self::Barrier)
    }
}

impl FromStr for Primitive {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(_, name)| *name == word);
        found.map(|(primitive, _)| primitive).ok_or_else(|| format!("there is no primitive {word}"))
    }
}

impl Options {
    /// What holds for an option that is not given. Some are required, and empty here.
    fn unless_told() -> Self {
        Self {
            folder: PathBuf::new(),
            client: String::new(),
            seed: 0,
            deployment: Deployment::Memory,
            urls: Vec::new(),
            ttl: Duration::from_secs(1),
            wait_limit: Duration::ZERO,
            node_timeout: None,
            max_ttl: None,
            fair: false,
            tasks: 8,
            hold: Duration::from_millis(5),
            careless: 10,
            primitives: Vec::new(),
            flaw: None,
            clients: 1,
            party: 2,
        }
    }

    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut folder, mut client, mut deployment) = (None, None, None);
        let (mut primitives, mut wait_limit) = (None, None);
        let mut options = Self::unless_told();
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--folder" => folder = Some(PathBuf::from(value)),
                "--client" => client = Some(value),
                "--seed" => options.seed = number(&name, &value)?,
                "--deployment" => deployment = Some(deployment_of(&value)?),
                "--url" => options.urls.push(value),
                "--ttl" => options.ttl = millis(&name, &value)?,
                "--wait-limit" => wait_limit = Some(millis(&name, &value)?),
                "--node-timeout" => options.node_timeout = Some(millis(&name, &value)?),
                "--max-ttl" => options.max_ttl = Some(millis(&name, &value)?),
                "--fair" => options.fair = number(&name, &value)?,
                "--tasks" => options.tasks = number(&name, &value)?,
                "--hold" => options.hold = millis(&name, &value)?,
                "--careless" => options.careless = number(&name, &value)?,
                "--primitives" => {
                    primitives = Some(value.split(',').map(str::parse).collect::<Result<_, _>>()?);
                }
                "--flaw" => options.flaw = Some(value),
                "--clients" => options.clients = number(&name, &value)?,
                "--party" => options.party = number(&name, &value)?,
                _ => return Err(format!("there is no option {name}")),
            }
        }
        options.folder = folder.ok_or("where to is said by --folder")?;
        options.client = client.ok_or("who it is is said by --client")?;
        options.deployment = deployment.ok_or("over what is said by --deployment")?;
        options.wait_limit = wait_limit.unwrap_or(options.ttl * 10);
        options.primitives = options.primitives_of(primitives)?;
        options.check()
    }

    /// The requested primitives, or all of the deployment.
    fn primitives_of(&self, asked: Option<Vec<Primitive>>) -> Result<Vec<Primitive>, String> {
        let is_there = |primitive: &Primitive| primitive.is_over(self.deployment);
        let all = || Primitive::ALL.into_iter().map(|(primitive, _)| primitive).filter(is_there);
        match asked {
            None => Ok(all().collect()),
            Some(asked) => match asked.iter().find(|primitive| !is_there(primitive)) {
                Some(lacks) => Err(format!("there is no {lacks:?} over {}", self.deployment)),
                None => Ok(asked),
            },
        }
    }

    fn check(self) -> Result<Self, String> {
        let (wanted, urls) = (self.deployment.urls(), self.urls.len());
        if wanted != urls {
            return Err(format!("{} has {wanted} URLs, not {urls}", self.deployment));
        }
        if self.clients > 1 && self.deployment != Deployment::Memory {
            return Err("several clients in one process are for the memory".to_owned());
        }
        if self.tasks == 0 || self.clients == 0 {
            return Err("there are no tasks, or no clients".to_owned());
        }
        Ok(self)
    }

    /// The names of the clients: that of the process, with a number each if there are several.
    pub(crate) fn names(&self) -> Vec<String> {
        if self.clients == 1 {
            return vec![self.client.clone()];
        }
        (0..self.clients).map(|number| format!("{}.{number}", self.client)).collect()
    }

    /// The socket of the resource.
    pub(crate) fn resource(&self) -> PathBuf {
        self.folder.join("resource.sock")
    }
}

fn deployment_of(word: &str) -> Result<Deployment, String> {
    let mut all =
        Deployment::ALL.into_iter().chain(Deployment::FAIL_OVER).chain(Deployment::OTHERS);
    let found = all.find(|deployment| deployment.to_string() == word);
    found.ok_or_else(|| format!("there is no deployment {word}"))
}

fn millis(name: &str, value: &str) -> Result<Duration, String> {
    number(name, value).map(Duration::from_millis)
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} is not {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_ascii_whitespace().map(str::to_owned))
    }

    #[test]
    fn all_is_said_by_options() {
        let options = parse(
            "--folder /f --client w1 --seed 7 --deployment quorum-3 --url a --url b --url c \
             --ttl 900 --wait-limit 5000 --node-timeout 300 --max-ttl 1500 --fair true --tasks 4 \
             --hold 20 --careless 30 --primitives mutex,slots --flaw none --party 4",
        )
        .unwrap();
        let millis = Duration::from_millis;
        let expected = Options {
            folder: "/f".into(),
            client: "w1".to_owned(),
            seed: 7,
            deployment: Deployment::Quorum(3),
            urls: ["a", "b", "c"].map(str::to_owned).to_vec(),
            ttl: millis(900),
            wait_limit: millis(5_000),
            node_timeout: Some(millis(300)),
            max_ttl: Some(millis(1_500)),
            fair: true,
            tasks: 4,
            hold: millis(20),
            careless: 30,
            primitives: vec![Primitive::Mutex, Primitive::Slots],
            flaw: Some("none".to_owned()),
            clients: 1,
            party: 4,
        };
        assert_eq!(options, expected);
        assert_eq!(options.resource(), PathBuf::from("/f/resource.sock"));
        assert_eq!(options.names(), ["w1"]);
    }

    #[test]
    fn what_is_not_said_is_as_the_deployment_has_it() {
        let memory =
            parse("--folder f --client m --deployment memory --clients 3 --ttl 300").unwrap();
        assert_eq!(memory.primitives.len(), Primitive::ALL.len());
        assert_eq!(memory.names(), ["m.0", "m.1", "m.2"]);
        assert_eq!((memory.wait_limit, memory.clients), (Duration::from_secs(3), 3));
        let quorum = "--folder f --client q --deployment quorum-3 --url a --url b --url c";
        let quorum = parse(quorum).unwrap();
        let without = |primitive| !quorum.primitives.contains(&primitive);
        assert!(without(Primitive::Semaphore) && without(Primitive::Barrier));
        assert_eq!(quorum.primitives.len(), Primitive::ALL.len() - 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let rest = "--folder f --client w";
        for (more, why) in [
            ("", "--deployment"),
            ("--deployment redis", "has 1 URLs, not 0"),
            ("--deployment moon", "no deployment moon"),
            ("--deployment memory --ttl soon", "--ttl is not"),
            ("--deployment memory --ttl", "needs a value"),
            ("--deployment memory --colour red", "no option --colour"),
            ("--deployment memory --tasks 0", "no tasks"),
            ("--deployment redis --url a --clients 2", "for the memory"),
            ("--deployment memory --primitives mutex,knot", "no primitive knot"),
            (
                "--deployment quorum-3 --url a --url b --url c --primitives semaphore",
                "no Semaphore over quorum-3",
            ),
        ] {
            let error = parse(&format!("{rest} {more}")).unwrap_err();
            assert!(error.contains(why), "{more}: {error}");
        }
    }
}
