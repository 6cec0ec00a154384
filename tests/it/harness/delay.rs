//! A way to an agent on which each answer takes its time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::wait::let_pass;

/// Forwards until the test's process ends.
pub(crate) struct Delay {
    address: SocketAddr,
    ms: Arc<AtomicU64>,
}

impl Delay {
    /// Another address for `to`, without a delay yet.
    pub(crate) fn before(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let ms = Arc::new(AtomicU64::new(0));
        let delay = Arc::clone(&ms);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(to) else {
                    continue;
                };
                let halves = (client.try_clone(), server.try_clone());
                let (Ok(from_client), Ok(to_server)) = halves else {
                    continue;
                };
                thread::spawn(move || forward(from_client, to_server, None));
                let delay = Arc::clone(&delay);
                thread::spawn(move || forward(server, client, Some(&delay)));
            }
        });
        Self { address, ms }
    }

    /// What `CONSUL_HTTP_ADDR` takes.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How long each answer is kept from now on.
    pub(crate) fn set(&self, delay: Duration) {
        let ms = u64::try_from(delay.as_millis()).expect("a test's delay is short");
        self.ms.store(ms, Ordering::Relaxed);
    }
}

/// Copies until either end closes. An answer of several segments is delayed once per segment
/// that is read: answers of tests about delays are short.
fn forward(mut from: TcpStream, mut to: TcpStream, delay: Option<&AtomicU64>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if let Some(delay) = delay {
            let_pass(Duration::from_millis(delay.load(Ordering::Relaxed)));
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other direction ends by its own read.
    to.shutdown(std::net::Shutdown::Both).ok();
}
