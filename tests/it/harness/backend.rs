//! A backend that answers with its name, counts its requests, and can be ill.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const REQUEST_MAX: Duration = Duration::from_secs(5);
/// The longest that an open SSH connection is left in peace.
const SESSION_MAX: Duration = Duration::from_mins(1);
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// An HTTP server of this process. Health checks (`GET /health`, `GET /-/...`, `OPTIONS`) answer 200
/// or 503; anything else is counted and answered with the backend's name, or with 503.
pub(crate) struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http,
    Ssh,
}

struct Shared {
    name: String,
    protocol: Protocol,
    requests: AtomicU64,
    healthy: AtomicBool,
    serving: AtomicBool,
    ending: AtomicBool,
}

impl Backend {
    /// Starts on a free port of 127.0.0.1, which stays bound until the drop.
    pub(crate) fn start(name: &str) -> Self {
        Self::start_at(name, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts at an address whose port is reserved.
    pub(crate) fn start_at(name: &str, address: SocketAddr) -> Self {
        Self::listen(name, address, Protocol::Http)
    }

    /// The same for SSH: it greets as OpenSSH does, with its name, and says again what it is told.
    pub(crate) fn start_ssh(name: &str, address: SocketAddr) -> Self {
        Self::listen(name, address, Protocol::Ssh)
    }

    fn listen(name: &str, address: SocketAddr, protocol: Protocol) -> Self {
        let listener = TcpListener::bind(address).expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            protocol,
            requests: AtomicU64::new(0),
            healthy: AtomicBool::new(true),
            serving: AtomicBool::new(true),
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

    /// What health checks are answered from now on.
    pub(crate) fn set_healthy(&self, healthy: bool) {
        self.shared.healthy.store(healthy, Ordering::Relaxed);
    }

    /// Whether all other requests are answered well from now on, whatever health checks are told.
    pub(crate) fn set_serving(&self, serving: bool) {
        self.shared.serving.store(serving, Ordering::Relaxed);
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
            std::thread::spawn(move || match shared.protocol {
                Protocol::Http => answer(stream, &shared).ok(),
                Protocol::Ssh => greet(stream, &shared.name).ok(),
            });
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
    let checks: [&[u8]; 3] = [b"GET /health ", b"GET /-/", b"OPTIONS "];
    let is_health = checks.iter().any(|check| request.starts_with(check));
    let fine = if is_health {
        &shared.healthy
    } else {
        &shared.serving
    };
    let status = if fine.load(Ordering::Relaxed) {
        "200 OK"
    } else {
        "503 Service Unavailable"
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

fn greet(mut stream: TcpStream, name: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(SESSION_MAX))?;
    stream.set_write_timeout(Some(REQUEST_MAX))?;
    write!(stream, "SSH-2.0-{name}\r\n")?;
    io::copy(&mut stream.try_clone()?, &mut stream)?;
    Ok(())
}
