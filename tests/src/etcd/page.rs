//! The pages that a server has for people and for monitoring.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::CommandStats;

/// A server that stands still does not answer.
const LIMIT: Duration = Duration::from_secs(2);

/// The text of a page, whatever its status.
pub(super) fn get(addr: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    // In this version of HTTP the end of the connection ends the page.
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let page = answer.split_once("\r\n\r\n").map(|(_, page)| page.to_owned());
    page.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The messages that were received for each method.
pub(super) fn received(figures: &str) -> CommandStats {
    let lines = figures.lines().filter_map(|line| {
        let (labels, count) =
            line.strip_prefix("grpc_server_msg_received_total{")?.split_once("} ")?;
        let method = labels.split(',').find_map(|label| label.strip_prefix("grpc_method=\""))?;
        // The largest numbers have an exponent.
        let count = count.parse::<f64>().ok()? as u64;
        Some((method.trim_end_matches('"').to_owned(), count))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_by_method() {
        let figures = "# TYPE grpc_server_msg_received_total counter\n\
            grpc_server_msg_received_total{grpc_method=\"Txn\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 12\n\
            grpc_server_msg_sent_total{grpc_method=\"Txn\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 11\n\
            grpc_server_msg_received_total{grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"} 1.5e+06\n";
        let stats = received(figures);
        assert_eq!((stats.calls("Txn"), stats.calls("Watch")), (12, 1_500_000));
        assert_eq!(stats.total(), 1_500_012);
    }
}
