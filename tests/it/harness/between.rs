//! A way to a Consul agent that loses, keeps or delays its transactions, and lets all else pass.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What becomes of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treat {
    Pass,
    /// It is applied, and nobody is told.
    LoseAnswer,
    /// It does not come through; it is kept.
    Hold,
    /// The one that was kept comes through just before this one.
    PassAfterHeld,
    /// The one that was kept comes through once this one is answered.
    PassBeforeHeld,
}

/// Forwards until the test's process ends.
pub(crate) struct Between {
    address: SocketAddr,
    transactions: Arc<AtomicUsize>,
}

struct Way {
    to: SocketAddr,
    treat: Box<dyn Fn(usize) -> Treat + Send + Sync>,
    transactions: Arc<AtomicUsize>,
    held: Mutex<Vec<Vec<u8>>>,
}

impl Between {
    /// Another address for `to`. `treat` is called with the number of each transaction, from 1,
    /// before it goes on.
    pub(crate) fn new(
        to: SocketAddr,
        treat: impl Fn(usize) -> Treat + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener.local_addr().expect("it is bound");
        let transactions = Arc::new(AtomicUsize::new(0));
        let way = Arc::new(Way {
            to,
            treat: Box::new(treat),
            transactions: Arc::clone(&transactions),
            held: Mutex::default(),
        });
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let way = Arc::clone(&way);
                // Whoever has gone hears nothing.
                thread::spawn(move || way.serve(client));
            }
        });
        Self {
            address,
            transactions,
        }
    }

    /// What a command takes to go this way.
    pub(crate) fn environment(&self) -> [(String, String); 1] {
        let url = format!("http://{}", self.address);
        [("CONSUL_HTTP_ADDR".to_owned(), url)]
    }

    /// How many transactions were sent.
    pub(crate) fn transactions(&self) -> usize {
        self.transactions.load(Ordering::SeqCst)
    }
}

impl Way {
    /// One request: its answer tells the client to close.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let request = read_request(&mut client)?;
        if !request.starts_with(b"PUT /v1/txn") {
            return client.write_all(&self.forward(&request)?);
        }
        let number = self.transactions.fetch_add(1, Ordering::SeqCst) + 1;
        let held = || std::mem::take(&mut *self.held.lock().expect("no thread panics with it"));
        let deliver = || held().iter().try_for_each(|r| self.forward(r).map(drop));
        match (self.treat)(number) {
            Treat::Pass => client.write_all(&self.forward(&request)?),
            Treat::LoseAnswer => {
                self.forward(&request)?;
                await_close(&mut client)
            }
            Treat::Hold => {
                let mut held = self.held.lock().expect("no thread panics with it");
                held.push(request);
                drop(held);
                await_close(&mut client)
            }
            Treat::PassAfterHeld => {
                deliver()?;
                client.write_all(&self.forward(&request)?)
            }
            Treat::PassBeforeHeld => {
                let answer = self.forward(&request)?;
                deliver()?;
                client.write_all(&answer)
            }
        }
    }

    fn forward(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect(self.to)?;
        server.write_all(request)?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

fn await_close(client: &mut TcpStream) -> io::Result<()> {
    while client.read(&mut [0; 4_096])? > 0 {}
    Ok(())
}

/// Head and body, with a head that asks for the connection's end.
fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    let mut more = |bytes: &mut Vec<u8>| match client.read(&mut buffer)? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        count => {
            bytes.extend_from_slice(&buffer[..count]);
            Ok(())
        }
    };
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        more(&mut bytes)?;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(0, |value| {
        value
            .trim()
            .parse::<usize>()
            .expect("a client says a number")
    });
    while bytes.len() < head + length {
        more(&mut bytes)?;
    }
    let line = text.find("\r\n").expect("a head has lines") + 2;
    bytes.splice(line..line, *b"Connection: close\r\n");
    Ok(bytes)
}
