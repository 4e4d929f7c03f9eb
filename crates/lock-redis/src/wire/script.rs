//! One script, in the form that is sent.

use std::sync::OnceLock;

/// A script, and its name in a server that has loaded it.
///
/// Its form is made when it is first needed: a short program needs few of the scripts.
#[derive(Debug)]
pub(crate) struct Script {
    verb: &'static str,
    source: &'static str,
    has_terms: bool,
    body: OnceLock<String>,
    digest: OnceLock<String>,
    /// The script where grants name their term, if that is another one.
    with_terms: OnceLock<Option<Box<Self>>>,
}

impl Script {
    /// The lines between `--<terms` and `--terms>`, and those that end in `--terms` and maybe a reason, are only for
    /// grants that name their term.
    pub(crate) const fn new(verb: &'static str, source: &'static str) -> Self {
        Self::of(verb, source, false)
    }

    /// As [`new`](Self::new), where grants name their term.
    pub(crate) const fn naming_terms(verb: &'static str, source: &'static str) -> Self {
        Self::of(verb, source, true)
    }

    const fn of(verb: &'static str, source: &'static str, has_terms: bool) -> Self {
        Self {
            verb,
            source,
            has_terms,
            body: OnceLock::new(),
            digest: OnceLock::new(),
            with_terms: OnceLock::new(),
        }
    }

    /// The script where grants name their term, or do not.
    pub(crate) fn with_terms(&self, terms: bool) -> &Self {
        if !terms || self.has_terms {
            return self;
        }
        let with_terms = self.with_terms.get_or_init(|| {
            let is_another = self.source.contains("--terms");
            is_another.then(|| Box::new(Self::of(self.verb, self.source, true)))
        });
        with_terms.as_deref().unwrap_or(self)
    }

    /// What a call of the script asks for, for people.
    pub(crate) fn verb(&self) -> &'static str {
        self.verb
    }

    pub(crate) fn body(&self) -> &str {
        self.body.get_or_init(|| shortened(self.source, self.has_terms))
    }

    /// The SHA-1 of the body, as 40 hexadecimal digits.
    pub(crate) fn digest(&self) -> &str {
        self.digest.get_or_init(|| redis::Script::new(self.body()).get_hash().to_owned())
    }
}

/// The source without comments and spaces: less than half of it. What is about `terms` may be left out.
fn shortened(source: &str, terms: bool) -> String {
    let mut body = Vec::with_capacity(source.len());
    let mut within = false;
    for line in source.lines().map(str::trim_ascii) {
        match line {
            "--<terms" => within = true,
            "--terms>" => within = false,
            _ => {}
        }
        if line.is_empty() || line.starts_with("--") || within && !terms {
            continue;
        }
        let before = body.len();
        let is_marked = push(&mut body, line.as_bytes());
        if is_marked && !terms {
            body.truncate(before);
        } else {
            body.push(b'\n');
        }
    }
    String::from_utf8(body).unwrap_or_default()
}

/// Adds a line without its spaces. Returns whether it is only about terms.
fn push(body: &mut Vec<u8>, mut line: &[u8]) -> bool {
    // Texts are between quotes, and contain no quotes.
    let mut is_text = false;
    while let [first, rest @ ..] = line {
        line = rest;
        match (first, rest) {
            (b'\'', _) => is_text = !is_text,
            (b',', [b' ', rest @ ..]) if !is_text => line = rest,
            (b' ', [b'=', b' ', rest @ ..]) if !is_text => {
                body.push(b'=');
                line = rest;
                continue;
            }
            (b' ', rest) if !is_text && rest.starts_with(b"--terms") => return true,
            _ => {}
        }
        body.push(*first);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_spaces_stay_here_and_texts_do_not() {
        let source = "-- Why.\nif a then\n  -- Why not.\n\n  b = f(1, ', ') .. ' = '\n  return 'a -- b'\nend\n";
        let short = "if a then\nb=f(1,', ') .. ' = '\nreturn 'a -- b'\nend\n";
        assert_eq!(shortened(source, false), short);
        assert_eq!(Script::new("test", source).with_terms(true).body(), short);
    }

    #[test]
    fn what_is_about_terms_is_in_one_script_of_two() {
        let script = Script::new(
            "test",
            "a()\n--<terms\n  -- Why.\n  b()\n--terms>\nc()\n  d() --terms: why\ne()\n",
        );
        assert_eq!(script.with_terms(false).body(), "a()\nc()\ne()\n");
        assert_eq!(script.with_terms(true).body(), "a()\nb()\nc()\nd()\ne()\n");
        assert_ne!(script.with_terms(true).digest(), script.digest());
        assert_eq!(script.digest(), redis::Script::new("a()\nc()\ne()\n").get_hash());
        assert!(std::ptr::eq(script.with_terms(true), script.with_terms(true).with_terms(true)));
    }
}
