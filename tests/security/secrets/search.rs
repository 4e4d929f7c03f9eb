//! Searches a text for a secret, in any form.

use std::fmt::Write;

/// The number of consecutive characters of a secret that must not be shown.
const PIECE: usize = 10;

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Secret {
    what: &'static str,
    text: String,
}

impl Secret {
    pub(crate) fn new(what: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        assert!(text.len() > PIECE, "{what} is too short to be found in pieces");
        Self { what, text }
    }

    /// The place where a text contains the secret or a piece of it, with a little context.
    pub(crate) fn find(&self, text: &str) -> Option<String> {
        let place = self.forms().into_iter().find_map(|form| text.find(&form))?;
        let is_near = |at: usize| at + 120 >= place && at < place + 120;
        let near: String =
            text.char_indices().filter(|(at, _)| is_near(*at)).map(|it| it.1).collect();
        Some(format!("{}: …{near}…", self.what))
    }

    /// Every piece of it unchanged, and all of it in the forms that careful code might write.
    fn forms(&self) -> Vec<String> {
        let bytes = self.text.as_bytes();
        let ends = (PIECE..=self.text.len()).filter(|&end| self.text.is_char_boundary(end));
        let pieces = ends.filter_map(|end| self.text.get(end - PIECE..end));
        let mut forms: Vec<_> = pieces.map(str::to_owned).collect();
        let each = |form: fn(u8) -> String| bytes.iter().map(move |byte| form(*byte));
        forms.push(each(|byte| format!("{byte:02x}")).collect());
        forms.push(each(|byte| format!("{byte:02X}")).collect());
        forms.push(each(|byte| byte.to_string()).collect::<Vec<_>>().join(", "));
        forms.push(each(|byte| byte.to_string()).collect::<Vec<_>>().join(",\n    "));
        forms.push(each(|byte| format!("%{byte:02X}")).collect());
        forms.push(percent_encoded(bytes));
        forms.push(base64(bytes));
        forms.push(self.text.chars().rev().collect());
        forms
    }
}

fn percent_encoded(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// Without the last group, which depends on what follows.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = bytes.chunks_exact(3).flat_map(|group| {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[(bits >> shift & 63) as usize]))
    });
    groups.collect()
}
