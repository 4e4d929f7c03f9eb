//! The page that Prometheus reads. An app that serves HTTP anyway serves `PrometheusHandle::render` there.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

/// How long a client may take for its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the recorder drops what it does not need any more.
const UPKEEP: Duration = Duration::from_secs(5);

/// Answers every request with the metrics, until it is dropped.
pub(crate) struct Endpoint {
    addr: SocketAddr,
    handle: PrometheusHandle,
    _tasks: JoinSet<()>,
}

impl Endpoint {
    pub(crate) async fn open(addr: SocketAddr, handle: PrometheusHandle) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, handle.clone()));
        tasks.spawn(keep_up(handle.clone()));
        Ok(Self { addr, handle, _tasks: tasks })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn page(&self) -> String {
        self.handle.render()
    }
}

async fn serve(listener: TcpListener, handle: PrometheusHandle) {
    // The tasks end with this one.
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // The process may have too many open files. A later client gets the page.
                    sleep(PAUSE).await;
                    continue;
                };
                let handle = handle.clone();
                clients.spawn(async move {
                    // A client that goes away early gets no answer.
                    let _ = timeout(PATIENCE, answer(stream, &handle)).await;
                });
            }
            Some(_) = clients.join_next() => {}
        }
    }
}

async fn answer(stream: TcpStream, handle: &PrometheusHandle) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    // The head of the request ends with an empty line.
    while stream.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let page = handle.render();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(page.as_bytes()).await?;
    stream.shutdown().await
}

async fn keep_up(handle: PrometheusHandle) {
    let mut clock = interval(UPKEEP);
    loop {
        clock.tick().await;
        handle.run_upkeep();
    }
}
