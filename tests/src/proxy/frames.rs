//! Where requests and replies end in a stream of bytes.

/// Bytes that are neither a request nor a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreign;

/// The length of the request at the beginning of these bytes. `None` if it is not complete.
///
/// An array of strings, as client libraries send it; commands typed into a terminal are foreign.
pub(super) fn request_len(bytes: &[u8]) -> Result<Option<usize>, Foreign> {
    match bytes.first() {
        None => return Ok(None),
        Some(b'*') => {}
        Some(_) => return Err(Foreign),
    }
    let Some((count, mut at)) = number(bytes, 1)? else { return Ok(None) };
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(_) => return Err(Foreign),
        }
        match string(bytes, at)? {
            Some(end) => at = end,
            None => return Ok(None),
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

/// The length of the reply at the beginning of these bytes, and whether it is one: `false` for a pushed
/// message. `None` if it is not complete.
pub(super) fn reply_len(bytes: &[u8]) -> Result<Option<(usize, bool)>, Foreign> {
    let is_reply = bytes.first() != Some(&b'>');
    Ok(value(bytes, 0)?.filter(|end| *end <= bytes.len()).map(|end| (end, is_reply)))
}

/// The words of a complete request.
pub(super) fn words(request: &[u8]) -> Vec<&[u8]> {
    let mut words = Vec::new();
    let Ok(Some((_, mut at))) = number(request, 1) else { return words };
    while let Ok(Some((len, begin))) = number(request, at + 1) {
        let Some(word) = request.get(begin..begin + len) else { break };
        words.push(word);
        at = begin + len + 2;
        if at >= request.len() {
            break;
        }
    }
    words
}

/// The end of the value that begins at `at`.
fn value(bytes: &[u8], at: usize) -> Result<Option<usize>, Foreign> {
    let Some(kind) = bytes.get(at) else { return Ok(None) };
    let children = match kind {
        b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => {
            return Ok(line(bytes, at + 1).map(|(_, end)| end));
        }
        b'$' | b'=' | b'!' => return string(bytes, at),
        b'*' | b'~' | b'>' => 1,
        // Attributes come before their value.
        b'%' | b'|' => 2,
        _ => return Err(Foreign),
    };
    let Some((count, mut next)) = number(bytes, at + 1)? else { return Ok(None) };
    for _ in 0..count * children + usize::from(*kind == b'|') {
        match value(bytes, next)? {
            Some(end) => next = end,
            None => return Ok(None),
        }
    }
    Ok(Some(next))
}

/// The end of the string that begins at `at`, which may be beyond the bytes.
fn string(bytes: &[u8], at: usize) -> Result<Option<usize>, Foreign> {
    let Some((text, end)) = line(bytes, at + 1) else { return Ok(None) };
    // An absent string has the length -1.
    if text == b"-1" {
        return Ok(Some(end));
    }
    Ok(number(bytes, at + 1)?.map(|(len, begin)| begin + len + 2))
}

/// The number in the line that begins at `at`, and the beginning of the next line. The number of an absent
/// array is zero.
fn number(bytes: &[u8], at: usize) -> Result<Option<(usize, usize)>, Foreign> {
    let Some((text, end)) = line(bytes, at) else { return Ok(None) };
    let number = if text == b"-1" { Some(0) } else { parse(text) };
    number.map(|number| Some((number, end))).ok_or(Foreign)
}

fn parse(text: &[u8]) -> Option<usize> {
    // At most as long as a server accepts.
    std::str::from_utf8(text).ok()?.parse().ok().filter(|number| *number <= 1 << 29)
}

/// The line that begins at `at`, and the beginning of the next one.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&rest[..end], at + end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No prefix is complete, and the bytes after the request do not matter.
    fn ends(bytes: &[u8], len: impl Fn(&[u8]) -> Option<usize>) {
        for end in 0..bytes.len() {
            assert_eq!(len(&bytes[..end]), None, "{}", bytes[..end].escape_ascii());
        }
        let more = [bytes, b"*1\r\n"].concat();
        assert_eq!(len(&more), Some(bytes.len()), "{}", bytes.escape_ascii());
    }

    #[test]
    fn a_request_ends_where_its_last_string_does() {
        let set = b"*3\r\n$3\r\nSET\r\n$4\r\n\r\n*1\r\n$0\r\n\r\n";
        ends(set, |bytes| request_len(bytes).unwrap());
        assert_eq!(words(set), [&b"SET"[..], b"\r\n*1", b""]);
        ends(b"*0\r\n", |bytes| request_len(bytes).unwrap());
        for foreign in [&b"PING\r\n"[..], b"\x16\x03\x01", b"*x\r\n", b"*1\r\n+OK\r\n"] {
            assert_eq!(request_len(foreign), Err(Foreign), "{}", foreign.escape_ascii());
        }
    }

    #[test]
    fn every_kind_of_reply_ends_where_it_does() {
        for reply in [
            &b"+OK\r\n"[..],
            b"-ERR no\r\n",
            b":-7\r\n",
            b"$-1\r\n",
            b"$4\r\na\r\nb\r\n",
            b"*-1\r\n",
            b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            b"_\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b"(123\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"%1\r\n+a\r\n~2\r\n:1\r\n:2\r\n",
            b"|1\r\n+ttl\r\n:5\r\n$1\r\nx\r\n",
        ] {
            ends(reply, |bytes| {
                let (len, is_reply) = reply_len(bytes).unwrap()?;
                assert!(is_reply);
                Some(len)
            });
        }
        let pushed = b">2\r\n+message\r\n$1\r\nx\r\n";
        assert_eq!(reply_len(pushed), Ok(Some((pushed.len(), false))));
        assert_eq!(reply_len(b"?"), Err(Foreign));
    }
}
