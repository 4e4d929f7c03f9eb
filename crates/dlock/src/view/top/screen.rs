//! The terminal, and how `top` gives it back.

use std::io;
use std::mem::ManuallyDrop;

use ratatui::DefaultTerminal;

/// The terminal in the mode of this program. The drop of this value restores the terminal, and so does a panic.
pub(super) struct Screen {
    // A terminal that is dropped prints its failures, and to print at a terminal that has gone is a panic.
    pub(super) terminal: ManuallyDrop<DefaultTerminal>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        // The hook restores the terminal before it prints the message of a panic.
        Ok(Self { terminal: ManuallyDrop::new(ratatui::try_init()?) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        _ = self.terminal.show_cursor();
        _ = ratatui::try_restore();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use pty_process::Size;
    use pty_process::blocking::{Command, open};

    use super::*;

    /// The variable by which the test runs itself in a terminal.
    const IN_TERMINAL: &str = "DLOCK_TEST_IN_TERMINAL";

    #[test]
    fn a_panic_gives_the_terminal_back_before_its_message() {
        if std::env::var_os(IN_TERMINAL).is_some() {
            let mut screen = Screen::open().unwrap();
            screen.terminal.draw(|frame| frame.render_widget("drawn", frame.area())).unwrap();
            panic!("as planned");
        }
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let name = "view::top::screen::tests::a_panic_gives_the_terminal_back_before_its_message";
        let again = Command::new(std::env::current_exe().unwrap());
        let again = again.args([name, "--exact", "--nocapture"]).env(IN_TERMINAL, "1");
        let mut child = again.env("TERM", "xterm").spawn(pts).unwrap();
        let (mut text, mut room) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = (&pty).read(&mut room) {
            text.extend_from_slice(&room[..length]);
        }
        assert!(!child.wait().unwrap().success());
        let text = String::from_utf8_lossy(&text);
        let places = ["\x1b[?1049h", "drawn", "\x1b[?1049l", "as planned"].map(|it| text.find(it));
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{places:?}: {text:?}");
        assert!(text.contains("\x1b[?25h"), "the cursor is shown: {text:?}");
    }
}
