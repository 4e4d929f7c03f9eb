//! Who logs in to a server: fixed, or asked for at each connection.

use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use lock_core::{Error, ErrorKind};

/// A user and a password for a server.
///
/// `Debug` shows neither. No error and no trace of this crate shows them, either.
///
/// # Examples
///
/// ```
/// use lock_redis::Credentials;
///
/// let credentials = Credentials::new("locks", "hunter2");
/// assert_eq!(format!("{credentials:?}"), "Credentials(…)");
/// ```
#[derive(Clone)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// A user and its password. An empty name stands for the default user.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        let user = Some(user.into()).filter(|user| !user.is_empty());
        Self { user, password: password.into() }
    }

    /// The password of the default user.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_redis::Credentials;
    ///
    /// let credentials = Credentials::password("hunter2");
    /// assert_eq!(format!("{credentials:?}"), "Credentials(…)");
    /// ```
    pub fn password(password: impl Into<String>) -> Self {
        Self::new("", password)
    }

    pub(crate) fn parts(&self) -> (Option<&str>, &str) {
        (self.user.as_deref(), &self.password)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;

/// Says who logs in, whenever a connection is opened.
#[derive(Clone)]
pub(crate) struct Provider(Arc<dyn Fn() -> Asked + Send + Sync>);

type Asked = BoxFuture<'static, Result<Credentials, Failed>>;

/// Why the provider of the app failed, in its own words. The error itself is foreign code: this crate may drop an
/// error while it holds one of its own locks.
#[derive(Debug)]
struct Failed(String);

impl Provider {
    pub(crate) fn new<F, Fut, E>(provide: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let provide = Arc::new(provide);
        Self(Arc::new(move || {
            let provide = Arc::clone(&provide);
            async move { provide().await.map_err(|error| Failed::of(&*error.into())) }.boxed()
        }))
    }

    /// These credentials each time.
    pub(crate) fn fixed(credentials: Credentials) -> Self {
        Self(Arc::new(move || std::future::ready(Ok(credentials.clone())).boxed()))
    }

    /// Asks for the credentials.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unreachable`], which is retryable, if the provider fails or panics.
    pub(crate) async fn ask(&self) -> Result<Credentials, Error> {
        const FAILED: &str = "the credential provider failed";
        let asked = AssertUnwindSafe(async { (self.0)().await }).catch_unwind();
        match asked.await {
            Ok(answer) => {
                answer.map_err(|error| Error::with_source(ErrorKind::Unreachable, FAILED, error))
            }
            Err(panic) => {
                // Its drop could panic again.
                std::mem::forget(panic);
                Err(Error::new(ErrorKind::Unreachable, "the credential provider panicked"))
            }
        }
    }
}

impl Failed {
    /// The error and the errors that caused it.
    fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self(text)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Failed {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn ask(provider: &Provider) -> Result<Credentials, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(provider.ask())
    }

    #[test]
    fn a_provider_is_asked_each_time() {
        let turn = std::sync::atomic::AtomicU32::new(0);
        let provider = Provider::new(move || {
            let turn = turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move { Ok::<_, Infallible>(Credentials::new("me", format!("hunter{turn}"))) }
        });
        assert_eq!(ask(&provider).unwrap().parts(), (Some("me"), "hunter0"));
        assert_eq!(ask(&provider.clone()).unwrap().parts(), (Some("me"), "hunter1"));
    }

    #[test]
    fn a_provider_that_fails_is_asked_again_and_gives_its_reason() {
        let provider = Provider::new(|| async {
            let cause = std::io::Error::other("the vault is sealed");
            let outer = Error::with_source(ErrorKind::Other, "no password", cause);
            Err::<Credentials, _>(outer)
        });
        let error = ask(&provider).unwrap_err();
        assert!(error.is_retryable());
        assert_eq!(error.to_string(), "the credential provider failed");
        let source = StdError::source(&error).unwrap().to_string();
        assert_eq!(source, "no password: the vault is sealed");
    }

    #[test]
    fn a_provider_that_panics_fails() {
        let provider = Provider::new(|| async {
            if true {
                panic!("a bug of the app");
            }
            Ok::<_, Infallible>(Credentials::password("hunter2"))
        });
        let error = ask(&provider).unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        let fixed = Provider::fixed(Credentials::new("me", "hunter2"));
        let credentials = ask(&fixed).unwrap();
        assert!(!format!("{credentials:?} {credentials:#?} {fixed:?}").contains("hunter2"));
    }
}
