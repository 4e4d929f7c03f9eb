//! The text of a URL that shows no secret.

/// The store that a URL names, to print or to log: the URL without its login and its options.
///
/// # Examples
///
/// ```
/// assert_eq!(lock_any::shown("redis://ann:secret@a:6379/2?protocol=resp3"), "redis://a:6379/2");
/// ```
pub fn shown(url: &str) -> String {
    let each = |url: &str| match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", place(scheme, rest)),
        None => url.to_owned(),
    };
    // A quorum may have several URLs.
    if url.get(..8).is_some_and(|it| it.eq_ignore_ascii_case("redlock:")) {
        return url.split_ascii_whitespace().map(each).collect::<Vec<_>>().join(" ");
    }
    each(url)
}

/// The hosts and the path in what follows the scheme.
///
/// In a URL of PostgreSQL, the login ends at the first `@`, and a password may contain a question mark. In every other URL,
/// the options begin at the first question mark, and may contain an `@`.
pub(crate) fn place<'a>(scheme: &str, rest: &'a str) -> &'a str {
    let without_login = |text: &'a str| text.rsplit_once('@').map_or(text, |(_, place)| place);
    let is_postgres = scheme.to_ascii_lowercase().contains("postgres");
    let rest = match rest.split_once('@') {
        Some((_, rest)) if is_postgres => rest,
        _ => rest,
    };
    match rest.split_once('?') {
        // A password with a question mark, which the store refuses.
        Some((_, options)) if !is_postgres && is_password(options) => without_login(options),
        Some((place, _)) => without_login(place),
        None => without_login(rest),
    }
}

/// Whether what follows a question mark is the rest of a password, and a host.
fn is_password(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(secret, _)| !secret.contains(['/', '=']))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_url_is_shown_without_its_login_and_options() {
        for (url, text) in [
            ("redis://ann:p%40ss@a:1/2?protocol=resp3", "redis://a:1/2"),
            ("redlock+redis://:x@a,b,c/0", "redlock+redis://a,b,c/0"),
            ("Postgres://ann:a?b@a:1?sslmode=disable", "Postgres://a:1"),
            ("redis+sentinel://s1/main?sentinel_pass=hun@ter2", "redis+sentinel://s1/main"),
            ("redis://ann:a?b@a:1", "redis://a:1"),
            ("postgres://u:p@h/db?password=hun@ter2", "postgres://h/db"),
            ("redis+unix:///r.sock?pass=hun@ter2", "redis+unix:///r.sock"),
            (
                "redlock:redis://ann:x@a/0 postgres://bob:y?z@b/app?sslmode=disable",
                "redlock:redis://a/0 postgres://b/app",
            ),
            ("redlock:postgres://bob:y?z@b/app", "redlock:postgres://b/app"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(shown(url), text, "{url}");
        }
    }
}
