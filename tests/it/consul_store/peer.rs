//! Peers that a store must survive: silent, rude, or no Consul at all. They end with the test's
//! runtime.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// How a peer treats each connection.
#[derive(Clone)]
pub(super) enum Manner {
    /// Reads, and never says a word.
    Silent,
    /// Closes at once.
    Close,
    /// Reads one request, writes these bytes, and closes.
    Answer(Vec<u8>),
}

/// A peer on a port of its own.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    pub(super) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, manner.clone(), seen.clone()));
            }
        });
        Self { address, requests }
    }

    /// A peer that answers with this status line, these headers and this body.
    pub(super) async fn answering(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
        Self::start(Manner::Answer(answer.into_bytes())).await
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The heads of all requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Another address for the same agent.
pub(super) async fn forward(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.9:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(join(stream, to));
        }
    });
    address
}

/// A unix socket that leads to an agent.
pub(super) fn forward_unix(path: &Path, to: SocketAddr) {
    let listener = UnixListener::bind(path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(join(stream, to));
        }
    });
}

async fn join(mut from: impl AsyncRead + AsyncWrite + Unpin, to: SocketAddr) {
    let mut to = TcpStream::connect(to).await.unwrap();
    // Either side may close as it likes.
    let _ = copy_bidirectional(&mut from, &mut to).await;
}

async fn serve(mut stream: TcpStream, manner: Manner, seen: Arc<Mutex<Vec<String>>>) {
    match manner {
        Manner::Close => {}
        Manner::Silent => while read_request(&mut stream).await.is_some() {},
        Manner::Answer(answer) => {
            if let Some(head) = read_request(&mut stream).await {
                seen.lock().unwrap().push(head);
                let _ = stream.write_all(&answer).await;
            }
        }
    }
}

/// Reads head and body of one request and gives the head; `None` at the end.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break String::from_utf8_lossy(&bytes[..end]).into_owned();
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.parse::<usize>().unwrap())
    });
    let whole = head.len() + 4 + length.unwrap_or(0);
    while bytes.len() < whole {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}
