//! The captain: the process that starts the members.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use lock_tests::CommandStats;

use super::outcome::Tally;
use super::python::script;
use super::record::{Record, now};
use super::serve::MEMBER;
use super::{Outcome, Part, Plan, REDIS_PY, python};
use crate::meter::spent;
use crate::{Failure, Meters, Site};

/// How long members may take to start, and to count.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a team, lets it work, and ends it. Its key is unused.
///
/// # Errors
///
/// If a member does not start, or its library fails.
pub fn play(site: &dyn Site, plan: &Plan) -> Result<Outcome, Failure> {
    static TIMES: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::Builder::new().prefix("lock-benches-").tempdir_in(shared_memory())?;
    let path = folder.path().join("record");
    let record = Record::create(&path, plan.tasks * plan.processes)?;
    let time = TIMES.fetch_add(1, Ordering::Relaxed);
    let part = part(plan, site.url(), format!("team:{time:04}"), path);
    let mut team = Team::muster(&part, plan)?;

    team.tell_all("go")?;
    if plan.by_turns {
        team.tell(0, "ask")?;
    }
    team.relay(plan.window / 4)?;
    let mut meters = Meters::at(&site.meters())?;
    let before = meters.accounts()?;
    team.tell_all("count")?;
    let start = now();
    team.relay(plan.window)?;
    let after = meters.accounts()?;
    team.tell_all("stop")?;

    let mut outcome = Outcome::default();
    let mut total = 0;
    for tally in team.tallies()? {
        total += tally.total;
        outcome.add(tally);
    }
    let last = record.read()?;
    outcome.lost = total.saturating_sub(last.updates(plan.rule));
    // The last turn counts too, although no other turn has ended it.
    if last.turn_began >= start {
        outcome.turns.add(Duration::from_nanos(last.released.saturating_sub(last.turn_began)));
    } else {
        outcome.turns.add(outcome.elapsed);
    }
    (outcome.commands, outcome.server) = spent(&before, &after, |it| team.sent(&it.stats));
    Ok(outcome)
}

/// The part of the first member.
fn part(plan: &Plan, url: String, key: String, record: PathBuf) -> Part {
    Part {
        contestant: plan.contestant.clone(),
        url,
        key,
        record,
        number: 0,
        tasks: plan.tasks,
        tasks_of_all: plan.tasks * plan.processes,
        rule: plan.rule,
        hold: plan.hold,
        by_turns: plan.by_turns,
        threads: plan.threads,
    }
}

/// A folder whose files live in memory, if there is one.
fn shared_memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

struct Team {
    members: Vec<Member>,
    words: Receiver<(usize, String)>,
    /// The commands that the scripts of this library call.
    inner_commands: Vec<String>,
}

struct Member {
    child: Child,
    orders: ChildStdin,
}

impl Team {
    /// Starts the processes, and returns once all of them are connected.
    fn muster(part: &Part, plan: &Plan) -> Result<Self, Failure> {
        let (sender, words) = channel();
        let mut team = Self { members: Vec::new(), words, inner_commands: Vec::new() };
        for number in 0..plan.processes {
            let part = Part { number, ..part.clone() };
            let program = plan.program.as_deref();
            team.members.push(Member::start(&part, program, sender.clone())?);
        }
        let end = Instant::now() + PATIENCE;
        for _ in 0..plan.processes {
            let (_, word) = team.word(end)?.ok_or("a member did not get ready")?;
            let names = word.strip_prefix("ready").ok_or_else(|| format!("not ready: {word}"))?;
            team.inner_commands =
                names.split([' ', ',']).filter(|it| !it.is_empty()).map(str::to_owned).collect();
        }
        Ok(team)
    }

    fn tell_all(&mut self, order: &str) -> Result<(), Failure> {
        (0..self.members.len()).try_for_each(|number| self.tell(number, order))
    }

    fn tell(&mut self, number: usize, order: &str) -> Result<(), Failure> {
        let orders = &mut self.members[number].orders;
        Ok(writeln!(orders, "{order}").and_then(|()| orders.flush())?)
    }

    /// Lets the members take turns for a while: whenever one has the lock, the next one may ask for it.
    fn relay(&mut self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while let Some((number, word)) = self.word(end)? {
            if word == "have" {
                self.tell((number + 1) % self.members.len(), "ask")?;
            }
        }
        Ok(())
    }

    fn tallies(&mut self) -> Result<Vec<Tally>, Failure> {
        let end = Instant::now() + PATIENCE;
        let mut tallies: Vec<Option<Tally>> = self.members.iter().map(|_| None).collect();
        while tallies.iter().any(Option::is_none) {
            let (number, word) = self.word(end)?.ok_or("a member did not say what it counted")?;
            if word != "have" {
                tallies[number] = Some(Tally::parse(&word)?);
            }
        }
        Ok(tallies.into_iter().flatten().collect())
    }

    /// The next line of a member, until this deadline.
    fn word(&mut self, end: Instant) -> Result<Option<(usize, String)>, Failure> {
        match self.words.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((_, word)) if word.starts_with("failed") => Err(word.into()),
            Ok(word) => Ok(Some(word)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("all members have ended".into()),
        }
    }

    /// How many of the commands that the server counted came over the network.
    fn sent(&self, stats: &CommandStats) -> u64 {
        let inner = |name: &str| self.inner_commands.iter().any(|inner| inner == name);
        stats.iter().filter(|(name, _)| !inner(name)).map(|(_, calls)| calls).sum()
    }
}

impl Member {
    fn start(
        part: &Part,
        program: Option<&Path>,
        words: Sender<(usize, String)>,
    ) -> Result<Self, Failure> {
        let mut command = if REDIS_PY.contains(&part.contestant.as_str()) {
            let mut command = Command::new(python()?);
            command.arg(script());
            command
        } else {
            let mut command = match program {
                Some(program) => Command::new(program),
                None => Command::new(std::env::current_exe()?),
            };
            command.arg(MEMBER);
            command
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(orders), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a member without pipes".into());
        };
        let number = part.number;
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if words.send((number, line)).is_err() {
                    return;
                }
            }
        });
        let mut member = Self { child, orders };
        writeln!(member.orders, "{}", part.to_json())?;
        Ok(member)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // An error means that the process is already gone.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
