//! A connection to a node of a cluster that sends `ASKING` before every script.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Makes the server accept keys of a slot that it imports, in the next command, and give no reply.
const ASKING: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n*1\r\n$6\r\nASKING\r\n";

/// Listens on a free port, and passes bytes on to this address. Lives as long as the present runtime.
///
/// It stands for a client that follows the redirections of a cluster. Commands other than scripts pass unchanged: a
/// connection in RESP2 that has subscribed accepts no others.
pub(crate) async fn asking_before(target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(relay(client, target));
        }
    });
    addr
}

async fn relay(client: TcpStream, target: SocketAddr) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    // When one side ends, both connections do.
    tokio::select! {
        () = requests(from_client, to_server) => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut begun = Vec::new();
    loop {
        let mut out = Vec::new();
        while let Some(len) = request_len(&begun) {
            let request = begun.drain(..len).collect::<Vec<_>>();
            if is_script(&request) {
                out.extend_from_slice(ASKING);
            }
            out.extend_from_slice(&request);
        }
        if to.write_all(&out).await.is_err() || !matches!(from.read_buf(&mut begun).await, Ok(1..))
        {
            return;
        }
    }
}

/// The length of the request at the beginning of these bytes, which is an array of strings. Nothing if it is not
/// complete.
fn request_len(bytes: &[u8]) -> Option<usize> {
    let (count, mut at) = header(bytes, 0, b'*')?;
    for _ in 0..count {
        let (len, begin) = header(bytes, at, b'$')?;
        at = begin + len + 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// The number in the line that begins at `at`, and the beginning of the next line.
fn header(bytes: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(rest[0], kind, "no request: {}", rest.escape_ascii());
    let number = std::str::from_utf8(&rest[1..end]).unwrap().parse().unwrap();
    Some((number, at + end + 2))
}

fn is_script(request: &[u8]) -> bool {
    let name = request.split(|byte| *byte == b'\n').nth(2).unwrap_or_default();
    name.to_ascii_uppercase().starts_with(b"EVAL")
}

#[test]
fn a_request_ends_where_its_last_string_does() {
    let request = b"*2\r\n$7\r\nevalsha\r\n$2\r\n\r\n\r\n";
    for end in 0..request.len() {
        assert_eq!(request_len(&request[..end]), None);
    }
    assert_eq!(request_len(&[&request[..], b"*1"].concat()), Some(request.len()));
    assert!(is_script(request) && !is_script(b"*1\r\n$4\r\nPING\r\n"));
}
