//! A backend that answers with its name, counts its requests, and can be ill.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const REQUEST_MAX: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// An HTTP server of this process. `GET /health` answers 200 or 503; anything else is counted and
/// answered with the backend's name.
pub(crate) struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    name: String,
    requests: AtomicU64,
    healthy: AtomicBool,
    ending: AtomicBool,
}

impl Backend {
    /// Starts on a free port of 127.0.0.1, which stays bound until the drop.
    pub(crate) fn start(name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            requests: AtomicU64::new(0),
            healthy: AtomicBool::new(true),
            ending: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &of_thread));
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests answered so far, health checks not counted.
    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// What `GET /health` answers from now on.
    pub(crate) fn set_healthy(&self, healthy: bool) {
        self.shared.healthy.store(healthy, Ordering::Relaxed);
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        // Wakes the acceptor, which waits for a connection.
        TcpStream::connect(self.address).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.ending.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(stream) = stream {
            let shared = Arc::clone(shared);
            // A connection ends within the time limit: the threads need no owner.
            std::thread::spawn(move || answer(stream, &shared).ok());
        }
    }
}

fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_MAX))?;
    stream.set_write_timeout(Some(REQUEST_MAX))?;
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..count]);
    }
    let is_health = request.starts_with(b"GET /health ") || request.starts_with(b"OPTIONS ");
    let status = if is_health && !shared.healthy.load(Ordering::Relaxed) {
        "503 Service Unavailable"
    } else {
        "200 OK"
    };
    if !is_health {
        shared.requests.fetch_add(1, Ordering::Relaxed);
    }
    let name = &shared.name;
    let length = name.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{name}"
    )
}
