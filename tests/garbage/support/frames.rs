//! Where the replies of a real server begin and end.

/// Joins pieces, and splits them into replies and pushes.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next reply or push, if it is complete.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let end = end(&self.bytes, 0)?;
        Some(self.bytes.drain(..end).collect())
    }
}

/// Where the elements of an aggregate begin, and where the last one ends; empty for other values.
pub(crate) fn elements(frame: &[u8]) -> Vec<usize> {
    let Some((b'*' | b'~' | b'>' | b'%', count, mut at)) = header(frame, 0) else {
        return Vec::new();
    };
    let mut places = vec![at];
    for _ in 0..count * if frame[0] == b'%' { 2 } else { 1 } {
        let Some(next) = end(frame, at) else { break };
        at = next;
        places.push(at);
    }
    places
}

/// The end of the value that begins at `from`.
fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let (kind, count, mut at) = header(bytes, from)?;
    match kind {
        b'$' | b'=' | b'!' if count >= 0 => {
            let end = at + count as usize + 2;
            (end <= bytes.len()).then_some(end)
        }
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let elements = match kind {
                b'%' => 2 * count,
                b'|' => 2 * count + 1,
                _ => count,
            };
            for _ in 0..elements {
                at = end(bytes, at)?;
            }
            Some(at)
        }
        _ => Some(at),
    }
}

/// The type of a value, the number after it, if there is one, and the end of its first line.
fn header(bytes: &[u8], from: usize) -> Option<(u8, i64, usize)> {
    let rest = &bytes[from..];
    let line = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let number = std::str::from_utf8(&rest[1..line]).ok().and_then(|it| it.parse().ok());
    Some((rest[0], number.unwrap_or(-1), from + line + 2))
}

#[test]
fn replies_are_taken_apart_wherever_they_are_cut() {
    let said: [&[u8]; 6] = [
        b"+OK\r\n",
        b"$5\r\na\r\nb\n\r\n",
        b"*2\r\n:1\r\n*1\r\n$-1\r\n",
        b"%1\r\n+a\r\n~2\r\n#t\r\n_\r\n",
        b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$0\r\n\r\n",
        b"|1\r\n+a\r\n:1\r\n:2\r\n",
    ];
    let whole = said.concat();
    for cut in 0..whole.len() {
        let (mut frames, mut taken) = (Frames::default(), Vec::new());
        for part in [&whole[..cut], &whole[cut..]] {
            frames.add(part);
            taken.extend(std::iter::from_fn(|| frames.next()));
        }
        assert_eq!(taken, said);
    }
    assert_eq!(elements(said[2]), [4, 8, said[2].len()]);
    assert_eq!(elements(said[0]), Vec::<usize>::new());
}
