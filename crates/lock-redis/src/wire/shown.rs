//! The errors of a server, as people see them.

use std::fmt::{self, Write as _};

/// An error of a server, as people see it.
pub(super) struct Shown<'a> {
    pub(super) code: &'a str,
    pub(super) text: &'a str,
}

/// One short line, without the arguments that servers often quote, among them passwords and tokens.
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const QUOTES: [&str; 2] = [", with args", " with args"];
        const LONGEST_LINE: usize = 200;
        let said = format!("{} {}", self.code, self.text);
        let mut said = said.lines().next().unwrap_or_default();
        for quote in QUOTES {
            said = said.split_once(quote).map_or(said, |(before, _)| before);
        }
        // The text ends up in logs and on terminals.
        let mut shown =
            said.trim_end_matches('.').chars().filter(|it| !it.is_control()).take(LONGEST_LINE);
        shown.try_for_each(|it| f.write_char(it))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;
    use redis::Value;

    use crate::wire::failure::{Failure, refused};
    use crate::wire::sent::Sent;
    use crate::wire::{Address, garbage};

    /// Lines of which many are nearly errors of servers, with secrets where servers often quote.
    fn lines() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            6 => select(vec![
                "ERR", "NOSCRIPT", "READONLY", "NOAUTH", "OOM", "LOCKFENCE", "-OOM", "-", "Error running script",
                "(call to f_0)", "@user_script:", "4:", "@user_script: 4: ", "No matching script.", "",
                ", with args hunter2", " with args beginning with: 'hunter2'", "\u{1b}[2J", "\u{7}", "\u{85}",
                "\t", "unknown command 'x'", "DB index", "max number of clients", "\u{feff}",
            ]).prop_map(str::to_owned),
            1 => any::<String>(),
            1 => "[A-Z]{1,900}",
        ];
        prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.join(" "))
    }

    proptest! {
        /// The text is one line that is safe for a terminal and a log, whatever the server says.
        #[test]
        fn a_refusal_is_one_short_line_without_what_was_sent(line in lines()) {
            let address = Address::Tcp { host: "redis.example".into(), port: 6379 };
            let Value::ServerError(error) = garbage::refusal(&line) else { panic!() };
            let failure = refused(&Sent::to(&address), &error);
            // Then the script is sent again, so it must not have run.
            match failure {
                Failure::NoScript(_) => prop_assert!(line.contains("NOSCRIPT")),
                Failure::NoCommand(_) => prop_assert!(line.contains("command"), "{}", line),
                _ => {}
            }
            let shown = failure.into_error().to_string();
            prop_assert!(!shown.contains("hunter2"), "{}", shown);
            prop_assert!(!shown.chars().any(char::is_control), "{:?}", shown);
            prop_assert!(shown.chars().count() < 500, "{}", shown.len());
        }
    }
}
