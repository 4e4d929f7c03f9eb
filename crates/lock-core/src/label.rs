//! The names by which people know the clients of a store.

use std::fmt;
use std::sync::Arc;

use crate::{Error, ErrorKind, OwnerToken};

/// A text by which people know a client: which program it is, where it runs, what it works on.
///
/// An [inspection](crate::InspectBackend::inspect) shows the label of each holder and of each waiter. A label proves
/// nothing and protects nothing. Cloning is cheap.
///
/// # Examples
///
/// ```
/// use lock_core::Label;
///
/// let label = Label::new("billing on web-3")?;
/// assert_eq!(label.as_str(), "billing on web-3");
/// assert!(Label::new("two\nlines").is_err());
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// The greatest length of a label, in bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Label;
    ///
    /// assert!(Label::new("x".repeat(Label::MAX_LEN)).is_ok());
    /// assert!(Label::new("x".repeat(Label::MAX_LEN + 1)).is_err());
    /// ```
    pub const MAX_LEN: usize = 128;
    /// What a part of the default label may take, so that the three fit.
    const PART: usize = 50;

    /// A label with this text.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the text is empty, is longer than [`Label::MAX_LEN`] bytes, or has a control
    /// character.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidConfig, message));
        if text.is_empty() {
            return invalid("a label cannot be empty".to_owned());
        }
        if text.len() > Self::MAX_LEN {
            let (is, most) = (text.len(), Self::MAX_LEN);
            return invalid(format!("a label of {is} bytes is too long: {most} at most"));
        }
        if let Some((at, control)) = text.char_indices().find(|(_, it)| it.is_control()) {
            let message =
                format!("a label cannot have the control character {control:?} at byte {at}");
            return invalid(message);
        }
        Ok(Self(text.into()))
    }

    /// The label of this process: `program@host:process id`. A part that cannot be found out is `?`, and long parts
    /// are cut.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Label;
    ///
    /// assert!(Label::of_process().as_str().ends_with(&format!(":{}", std::process::id())));
    /// ```
    pub fn of_process() -> Self {
        let program = std::env::args_os().next();
        let program = program.as_ref().map(std::path::Path::new).and_then(|path| path.file_name());
        let program = program.map(|name| name.to_string_lossy().into_owned());
        let (program, host) = (part(program), part(host()));
        Self(format!("{program}@{host}:{}", std::process::id()).into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A part of the default label, without what no label may have.
fn part(text: Option<String>) -> String {
    let mut part = String::new();
    for it in text.unwrap_or_default().chars().filter(|it| !it.is_control()) {
        if part.len() + it.len_utf8() > Label::PART {
            break;
        }
        part.push(it);
    }
    if part.is_empty() { "?".to_owned() } else { part }
}

#[cfg(unix)]
fn host() -> Option<String> {
    Some(rustix::system::uname().nodename().to_string_lossy().into_owned())
}

#[cfg(not(unix))]
fn host() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Label({:?})", &*self.0)
    }
}

/// The mark by which a store knows which client an owner token is of: 40 bits, drawn once for each label of a process.
///
/// The client puts its mark into each [owner token](OwnerToken::of_client) that it draws. So a store that knows the
/// label of a mark can show the label of every lease and of every place in a queue, and no grant carries a label. A
/// mark proves no ownership. Two clients with one mark would be shown with one label, and would otherwise not notice.
///
/// # Examples
///
/// ```
/// use lock_core::{ClientMark, OwnerToken};
///
/// let me = ClientMark::generate()?;
/// let owner = OwnerToken::generate()?.of_client(me);
/// assert_eq!(ClientMark::of_stored(owner.expose()), Some(me));
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientMark([u8; Self::DIGITS]);

impl ClientMark {
    /// The number of hexadecimal digits of a mark. They are the last ones of an owner token.
    ///
    /// The [example](Self::digits) of the digits counts them.
    pub const DIGITS: usize = 10;

    /// Draws a mark.
    ///
    /// # Errors
    ///
    /// As [`OwnerToken::generate`].
    pub fn generate() -> Result<Self, Error> {
        Ok(OwnerToken::generate()?.client())
    }

    /// The mark in an owner token as a store keeps it; `None` if that is no owner token of this family.
    pub fn of_stored(owner: &[u8]) -> Option<Self> {
        let is_ours = owner.len() == OwnerToken::DIGITS;
        Self::of_digits(owner.get(OwnerToken::DIGITS - Self::DIGITS..)?).filter(|_| is_ours)
    }

    /// The mark with these digits, as [`digits`](Self::digits) returns them; `None` if they are not such digits.
    pub fn of_digits(digits: &[u8]) -> Option<Self> {
        let digits: [u8; Self::DIGITS] = digits.try_into().ok()?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(Self(digits))
    }

    /// The mark with the last digits of an owner token.
    pub(crate) fn of_token(digits: [u8; Self::DIGITS]) -> Self {
        Self(digits)
    }

    /// The mark as hexadecimal digits.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::ClientMark;
    ///
    /// let mark = ClientMark::generate()?;
    /// assert_eq!(mark.digits().len(), ClientMark::DIGITS);
    /// assert_eq!(ClientMark::of_digits(mark.digits()), Some(mark));
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn digits(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ClientMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientMark({})", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_default_label_is_a_label_and_names_this_process() {
        let label = Label::of_process();
        assert_eq!(Label::new(label.as_str()).unwrap(), label);
        assert!(label.as_str().contains('@'), "{label}");
    }

    #[test]
    fn a_part_of_the_default_label_is_short_and_printable() {
        assert_eq!(part(None), "?");
        assert_eq!(part(Some("a\nb".to_owned())), "ab");
        assert_eq!(part(Some("é".repeat(100))), "é".repeat(25));
    }

    proptest! {
        #[test]
        fn a_label_is_kept_to_the_byte_or_refused(
            text in prop_oneof![any::<String>(), "[a-zé]{100,140}", "[ -~]{0,20}"],
        ) {
            let is_label = !text.is_empty()
                && text.len() <= Label::MAX_LEN
                && !text.chars().any(char::is_control);
            match Label::new(&text) {
                Ok(label) => prop_assert!(is_label && label.as_str() == text),
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::InvalidConfig);
                    prop_assert!(!is_label);
                }
            }
        }

        #[test]
        fn a_mark_is_a_part_of_the_token_and_leaves_the_rest(bytes: [u8; 16], other: [u8; 16]) {
            let (owner, mark) = (OwnerToken::from_bytes(bytes), OwnerToken::from_bytes(other).client());
            let marked = owner.of_client(mark);
            prop_assert_eq!(marked.client(), mark);
            prop_assert_eq!(ClientMark::of_stored(marked.expose()), Some(mark));
            prop_assert_eq!(ClientMark::of_digits(mark.digits()), Some(mark));
            prop_assert_eq!(&marked.expose()[..22], &owner.expose()[..22]);
            prop_assert_eq!(owner.of_client(owner.client()), owner);
        }
    }
}
