//! A question before something that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

/// The outcome of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// There is no terminal to ask at.
    NoTerminal,
}

/// Asks at the terminal. With `--yes`, does not ask.
pub(crate) fn ask(question: &str, yes: bool) -> Answer {
    if yes {
        return Answer::Yes;
    }
    let (input, output) = (io::stdin(), io::stderr());
    if !input.is_terminal() || !output.is_terminal() {
        return Answer::NoTerminal;
    }
    put(question, &mut input.lock(), &mut output.lock())
}

/// Only `y` and `yes` mean yes. The end of the input means no.
fn put(question: &str, input: &mut impl BufRead, output: &mut impl Write) -> Answer {
    let mut line = String::new();
    let asked = write!(output, "{question} [y/N] ").and_then(|()| output.flush());
    match asked.and_then(|()| input.read_line(&mut line)) {
        Ok(_) if matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") => Answer::Yes,
        _ => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        let answer = |text: &str| {
            let mut shown = Vec::new();
            let answer = put("Do it?", &mut text.as_bytes(), &mut shown);
            assert_eq!(shown, b"Do it? [y/N] ");
            answer
        };
        for yes in ["y\n", "yes\n", " Y \r\n", "YES"] {
            assert_eq!(answer(yes), Answer::Yes, "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yess\n", "no\ny\n"] {
            assert_eq!(answer(no), Answer::No, "{no:?}");
        }
        assert_eq!(ask("Do it?", true), Answer::Yes);
    }
}
