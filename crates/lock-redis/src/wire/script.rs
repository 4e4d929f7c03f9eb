//! One script, as it is sent.

/// A script, and the name under which a server that has loaded it knows it.
#[derive(Debug)]
pub(crate) struct Script {
    body: String,
    digest: String,
}

impl Script {
    pub(crate) fn new(source: &str) -> Self {
        let body = shortened(source);
        Self { digest: redis::Script::new(&body).get_hash().to_owned(), body }
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    /// The SHA-1 of the body, as 40 hexadecimal digits.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

/// What a server needs of a source: less than half of it.
fn shortened(source: &str) -> String {
    let lines = source.lines().map(str::trim);
    let mut body = String::with_capacity(source.len());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("--")) {
        // Texts are between quotes, and have none in them.
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
        assert_eq!(shortened(source), "if a then\nb=f(1,', ') .. ' = '\nreturn 'a -- b'\nend\n");
    }
}
