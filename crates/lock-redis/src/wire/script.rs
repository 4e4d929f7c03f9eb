//! One script, in the form that is sent.

/// A script, and its name in a server that has loaded it.
#[derive(Debug)]
pub(crate) struct Script {
    verb: &'static str,
    body: String,
    digest: String,
    /// The script where grants name their term, if that is another one.
    with_terms: Option<Box<Self>>,
}

impl Script {
    /// The lines between `--<terms` and `--terms>`, and those that end in `--terms` and maybe a reason, are only for
    /// grants that name their term.
    pub(crate) fn new(verb: &'static str, source: &str) -> Self {
        let with_terms = source.contains("--terms").then(|| Box::new(Self::of(verb, source, true)));
        Self { with_terms, ..Self::of(verb, source, false) }
    }

    fn of(verb: &'static str, source: &str, terms: bool) -> Self {
        let body = shortened(source, terms);
        let digest = redis::Script::new(&body).get_hash().to_owned();
        Self { verb, body, digest, with_terms: None }
    }

    /// The script where grants name their term, or do not.
    pub(crate) fn with_terms(&self, terms: bool) -> &Self {
        self.with_terms.as_deref().filter(|_| terms).unwrap_or(self)
    }

    /// What a call of the script asks for, for people.
    pub(crate) fn verb(&self) -> &'static str {
        self.verb
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    /// The SHA-1 of the body, as 40 hexadecimal digits.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

/// The source without comments and spaces: less than half of it. What is about `terms` may be left out.
fn shortened(source: &str, terms: bool) -> String {
    let mut body = String::with_capacity(source.len());
    let mut within = false;
    for line in source.lines().map(str::trim) {
        match line {
            "--<terms" => within = true,
            "--terms>" => within = false,
            _ => {}
        }
        let (line, marked) = match line.split_once(" --terms") {
            Some((line, _)) => (line, true),
            None => (line, within),
        };
        if line.is_empty() || line.starts_with("--") || marked && !terms {
            continue;
        }
        // Texts are between quotes, and contain no quotes.
        for (index, piece) in line.split('\'').enumerate() {
            if index % 2 == 0 {
                body.push_str(&piece.replace(", ", ",").replace(" = ", "="));
            } else {
                body.extend(["'", piece, "'"]);
            }
        }
        body.push('\n');
    }
    body
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
    }
}
