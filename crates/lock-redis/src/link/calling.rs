//! How a connection makes its server run scripts.
//!
//! A server knows a loaded script by its digest, so each call costs a few bytes. If scripts cannot be loaded,
//! because the user lacks the right or a proxy knows no `SCRIPT`, a call brings the script along. Servers keep
//! a script that they ran in this way, for a while at least, so the next call names the digest again. If the
//! server does not accept digests either, every call brings the script along.
//!
//! A connection believes a refusal only once the other way has worked. So it uses a right that the user gets
//! later. A script is sent again only after the server has said that it did not run it.

use futures::future;
use lock_core::{Error, ErrorKind};

use super::live::{Answer, CLOCK, Live};
use super::manner::Manner;
use crate::scripts;
use crate::wire::{By, Call, Command, Failure, Reply, neither};

const LOAD: &str = "SCRIPT LOAD";
const EVALSHA: &str = "EVALSHA";
const EVAL: &str = "EVAL";

impl Live {
    /// Calls a script and waits for the reply, up to the time limit. If the server does not know the script,
    /// or does not accept it in this way, the call is repeated in another way.
    ///
    /// # Errors
    ///
    /// After a retryable error the script may have run. If the reply belongs to another request, the
    /// connection is given up: the request of the next reply would be unknown.
    ///
    /// # Cancel safety
    ///
    /// Leaves open whether the script ran.
    pub(crate) async fn run(&self, call: Call) -> Result<Answer, Failure> {
        let Some(told) = &self.told else { return self.run_plainly(call).await };
        let (verb, sent) = (call.script().verb(), CLOCK.now());
        let outcome = self.run_plainly(call).await;
        told.answered(verb, sent, outcome.as_ref().err().map(Failure::error));
        outcome
    }

    async fn run_plainly(&self, mut call: Call) -> Result<Answer, Failure> {
        if !scripts::is_told_term(call.script()) {
            return self.run_as_it_is(call).await;
        }
        let (term, is_due) = self.terms.take(CLOCK.now());
        call.bytes(term.as_ref().map_or(&b""[..], |term| term));
        if is_due {
            // Sent together. A later call names the term that this one asks for.
            return Box::pin(future::join(self.run_as_it_is(call), self.read_term())).await.0;
        }
        self.run_as_it_is(call).await
    }

    /// Calls a script, and sends a command right behind it. `None` if the script has to be [run](Self::run) alone: the
    /// server does not know it, does not accept its digest, or lacks its key while the slot is moved.
    ///
    /// # Errors
    ///
    /// As those of [`run`](Self::run), and those of the command. The command may have run although the script did not.
    pub(crate) async fn run_before(
        &self,
        mut call: Call,
        then: &Command,
    ) -> Result<Option<[Reply; 2]>, Failure> {
        let (verb, sent) = (call.script().verb(), CLOCK.now());
        let told = self.tell_before(&mut call, then).await;
        if let Some(observed) = &self.told {
            observed.answered(verb, sent, told.as_ref().err().map(Failure::error));
        }
        match told {
            Err(Failure::NoScript(_) | Failure::NoCommand(_) | Failure::Asks(..)) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Reads the term of the server.
    async fn read_term(&self) {
        match self.call(&Command::words(&["INFO", "replication"])).await {
            Ok(Reply::Text(info)) => self.terms.told(Some(&info)),
            _ => self.terms.told(None),
        }
    }

    async fn run_as_it_is(&self, mut call: Call) -> Result<Answer, Failure> {
        let by = self.manners.get().first();
        match self.tell(&mut call, by).await {
            Err(Failure::NoScript(_)) => Box::pin(self.introduce(call)).await,
            Err(Failure::NoCommand(refusal)) => {
                let other = if by == By::Digest { By::Body } else { By::Digest };
                Box::pin(self.turn_to(other, call, refusal)).await
            }
            outcome => outcome,
        }
    }

    /// Runs a script that the server does not know.
    async fn introduce(&self, mut call: Call) -> Result<Answer, Failure> {
        if self.manners.get() != Manner::Loads {
            match self.tell(&mut call, By::Body).await {
                // The rights of the user have changed.
                Err(Failure::NoCommand(_)) => self.learn(Manner::Loads),
                outcome => return outcome,
            }
        }
        match self.load(call.script()).await {
            Ok(()) => self.tell(&mut call, By::Digest).await,
            Err(Failure::NoCommand(refusal)) => {
                let outcome = self.tell(&mut call, By::Body).await;
                self.conclude(Manner::Brings, [LOAD, EVAL], refusal, outcome)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Runs a script in the other way, after the server has refused the first one.
    async fn turn_to(&self, by: By, mut call: Call, refusal: Error) -> Result<Answer, Failure> {
        match (by, self.tell(&mut call, by).await) {
            (By::Digest, Err(Failure::NoScript(_))) => {
                self.learn(Manner::Loads);
                self.introduce(call).await
            }
            (By::Digest, outcome) => {
                self.conclude(Manner::Loads, [EVAL, EVALSHA], refusal, outcome)
            }
            (By::Body, outcome) => {
                self.conclude(Manner::BringsAll, [EVALSHA, EVAL], refusal, outcome)
            }
        }
    }

    /// The outcome of the other way, and what it means for later calls.
    fn conclude(
        &self,
        manner: Manner,
        ways: [&str; 2],
        refusal: Error,
        outcome: Result<Answer, Failure>,
    ) -> Result<Answer, Failure> {
        match outcome {
            Ok(answer) => {
                self.learn(manner);
                Ok(answer)
            }
            Err(Failure::NoCommand(other)) => {
                self.learn(Manner::Loads);
                Err(neither(ways, [refusal, other]).into())
            }
            Err(failure) => Err(failure),
        }
    }

    fn learn(&self, manner: Manner) {
        if self.manners.set(manner) && manner != Manner::Loads {
            tracing::info!(server = %self.endpoint(), ?manner, "the server loads no scripts: calls bring them along");
        }
    }

    /// Finds out whether calls can bring along scripts that cannot be loaded.
    ///
    /// # Errors
    ///
    /// If they cannot, an error that also names the refusal of the first way.
    pub(crate) async fn brings(&self, refusal: Error) -> Result<(), Failure> {
        match self.call(&Command::words(&[EVAL, "return 1", "0"])).await {
            Ok(Reply::Int(1)) => Ok(()),
            Ok(_) => {
                let message = "EVAL was answered with nonsense";
                Err(Error::new(ErrorKind::Protocol, message).into())
            }
            Err(Failure::NoCommand(other)) => Err(neither([LOAD, EVAL], [refusal, other]).into()),
            Err(failure) => Err(failure),
        }
    }

    /// Whether every call brings its script along.
    pub(crate) fn brings_all(&self) -> bool {
        self.manners.get() == Manner::BringsAll
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::scripts::{RELEASE, RENEW};
    use crate::wire::{Connection, Endpoint, Version};
    use lock_core::observer::Telling;

    /// A server that accepts some commands and refuses the others. It knows one script at most.
    #[derive(Default)]
    struct Fake {
        refuses: &'static [&'static str],
        knows: bool,
        /// The commands since the last look of the test.
        asked: Vec<String>,
    }

    impl Fake {
        fn answer(&mut self, words: &[String]) -> String {
            self.asked.push(words[0].clone());
            if self.refuses.contains(&words[0].as_str()) {
                return format!("-ERR command '{}' not allowed\r\n", words[0]);
            }
            match words[0].as_str() {
                "CLIENT" => return "+OK\r\n".to_owned(),
                "EVALSHA" if !self.knows => return "-NOSCRIPT no\r\n".to_owned(),
                "SCRIPT" => {
                    self.knows = true;
                    return format!("$40\r\n{}\r\n", RENEW.digest());
                }
                "EVAL" => {
                    assert_eq!(words[1], RENEW.body());
                    self.knows = true;
                }
                _ => assert_eq!(words[1], RENEW.digest()),
            }
            let answer = format!("{}:0", words[words.len() - 1]);
            format!("${}\r\n{answer}\r\n", answer.len())
        }
    }

    /// The words of the first request in these bytes, and its length, if the request is complete.
    fn request(bytes: &str) -> Option<(Vec<String>, usize)> {
        let number = |at: usize| {
            let (line, _) = bytes.get(at..)?.split_once("\r\n")?;
            Some((line[1..].parse::<usize>().ok()?, at + line.len() + 2))
        };
        let (count, mut at) = number(0)?;
        let mut words = Vec::new();
        for _ in 0..count {
            let (len, begin) = number(at)?;
            words.push(bytes.get(begin..begin + len)?.to_owned());
            at = begin + len + 2;
        }
        bytes.get(..at)?;
        Some((words, at))
    }

    async fn serve(mut stream: TcpStream, fake: Arc<Mutex<Fake>>) {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            text += std::str::from_utf8(&buffer[..count]).unwrap();
            while let Some((words, end)) = request(&text) {
                text.drain(..end);
                let answer = fake.lock().unwrap().answer(&words);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    }

    /// A connection, and the server at its other end.
    async fn live() -> (Live, Arc<Mutex<Fake>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let fake = Arc::new(Mutex::new(Fake::default()));
        let served = Arc::clone(&fake);
        tokio::spawn(async move { serve(listener.accept().await.unwrap().0, served).await });
        let endpoint = Arc::new(Endpoint::parse(&format!("redis://{addr}")).unwrap());
        let stream = TcpStream::connect(addr).await.unwrap();
        let opened = Connection::open(stream, &endpoint, Version::Resp2, |_| {}).await;
        let (connection, driver) = opened.map_err(Failure::into_error).unwrap();
        let live = Live::start(
            connection,
            driver,
            &endpoint,
            Duration::from_secs(20),
            &Telling::default(),
        )
        .unwrap();
        fake.lock().unwrap().asked.clear();
        (live, fake)
    }

    /// Calls a script, and returns the commands that the call sent.
    async fn call(live: &Live, fake: &Mutex<Fake>) -> (Result<Reply, Error>, Vec<String>) {
        let mut call = Call::new(&RENEW, 1, 0);
        call.bytes(b"key").bytes(b"argument");
        let outcome = live.run(call).await.map(|answer| answer.reply);
        (outcome.map_err(Failure::into_error), std::mem::take(&mut fake.lock().unwrap().asked))
    }

    async fn works(live: &Live, fake: &Mutex<Fake>, commands: &[&str]) {
        let (outcome, asked) = call(live, fake).await;
        assert_eq!(outcome.unwrap(), Reply::Int(0));
        assert_eq!(asked, commands);
    }

    async fn fails(live: &Live, fake: &Mutex<Fake>, commands: &[&str]) {
        let (outcome, asked) = call(live, fake).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("refuses both"), "{error}");
        assert_eq!(asked, commands);
    }

    fn set(fake: &Mutex<Fake>, refuses: &'static [&'static str], knows: bool) {
        let mut fake = fake.lock().unwrap();
        (fake.refuses, fake.knows) = (refuses, knows);
    }

    #[tokio::test]
    async fn a_usual_script_is_sent_ahead_of_its_first_call_and_no_other() {
        let (live, fake) = live().await;
        let live = live.preloading([&RENEW].into_iter());
        works(&live, &fake, &["SCRIPT", "EVALSHA"]).await;
        works(&live, &fake, &["EVALSHA"]).await;

        let (live, fake) = self::live().await;
        let live = live.preloading([&RELEASE].into_iter());
        works(&live, &fake, &["EVALSHA", "SCRIPT", "EVALSHA"]).await;

        // A server that loads no scripts says so when the call is refused.
        let (live, fake) = self::live().await;
        set(&fake, &["SCRIPT"], false);
        let live = live.preloading([&RENEW].into_iter());
        works(&live, &fake, &["SCRIPT", "EVALSHA", "SCRIPT", "EVAL"]).await;
    }

    #[tokio::test]
    async fn a_script_that_cannot_be_loaded_is_brought_along_once() {
        let (live, fake) = live().await;
        set(&fake, &["SCRIPT"], false);
        works(&live, &fake, &["EVALSHA", "SCRIPT", "EVAL"]).await;
        works(&live, &fake, &["EVALSHA"]).await;
        // The server has forgotten the script. The connection knows by now that nothing can be loaded here.
        set(&fake, &["SCRIPT"], false);
        works(&live, &fake, &["EVALSHA", "EVAL"]).await;
        works(&live, &fake, &["EVALSHA"]).await;
        assert!(!live.brings_all());
    }

    #[tokio::test]
    async fn where_digests_are_not_taken_every_call_brings_its_script() {
        let (live, fake) = live().await;
        for refuses in [&["EVALSHA"][..], &["EVALSHA", "SCRIPT"]] {
            set(&fake, refuses, false);
            works(&live, &fake, &["EVALSHA", "EVAL"]).await;
            works(&live, &fake, &["EVAL"]).await;
            assert!(live.brings_all());
            // The rights of the user have changed.
            set(&fake, &["EVAL"], false);
            works(&live, &fake, &["EVAL", "EVALSHA", "SCRIPT", "EVALSHA"]).await;
            works(&live, &fake, &["EVALSHA"]).await;
        }
    }

    #[tokio::test]
    async fn what_is_refused_in_every_way_is_tried_anew_each_time() {
        let (live, fake) = live().await;
        for _ in 0..2 {
            set(&fake, &["SCRIPT", "EVAL"], false);
            fails(&live, &fake, &["EVALSHA", "SCRIPT", "EVAL"]).await;
            set(&fake, &["EVALSHA", "EVAL"], false);
            fails(&live, &fake, &["EVALSHA", "EVAL"]).await;
        }
        set(&fake, &[], false);
        works(&live, &fake, &["EVALSHA", "SCRIPT", "EVALSHA"]).await;
        set(&fake, &["SCRIPT"], false);
        works(&live, &fake, &["EVALSHA", "SCRIPT", "EVAL"]).await;
        // The user has lost the right to bring scripts along, too, or has got the right to load them in
        // exchange.
        set(&fake, &["SCRIPT", "EVAL"], false);
        fails(&live, &fake, &["EVALSHA", "EVAL", "SCRIPT", "EVAL"]).await;
        set(&fake, &["SCRIPT"], false);
        works(&live, &fake, &["EVALSHA", "SCRIPT", "EVAL"]).await;
        set(&fake, &["EVAL"], false);
        works(&live, &fake, &["EVALSHA", "EVAL", "SCRIPT", "EVALSHA"]).await;
    }

    #[tokio::test]
    async fn a_call_that_is_not_tracked_has_run_and_is_not_sent_again() {
        let (live, fake) = live().await;
        set(&fake, &["CLIENT"], true);
        let mut call = Call::new(&RENEW, 1, 0);
        call.bytes(b"key");
        let outcome = live.run(call.tracked()).await;
        assert!(matches!(outcome, Err(Failure::Error(_))), "{outcome:?}");
        assert_eq!(fake.lock().unwrap().asked, ["CLIENT", "EVALSHA"]);
        assert!(!live.brings_all());
    }
}
