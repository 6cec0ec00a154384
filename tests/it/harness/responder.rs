//! A stand-in for Tidegate: says one line to whoever asks, for tests of the harness itself.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Answers agent checks until the process ends.
pub(crate) struct Responder {
    address: SocketAddr,
    line: Arc<Mutex<String>>,
    last_request: Arc<Mutex<String>>,
}

impl Responder {
    pub(crate) fn start(line: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let line = Arc::new(Mutex::new(line.to_owned()));
        let last_request = Arc::new(Mutex::new(String::new()));
        let (said, heard) = (Arc::clone(&line), Arc::clone(&last_request));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Ok(request) = answer(stream, &said.lock().expect("no holder panics")) {
                    *heard.lock().expect("no holder panics") = request;
                }
            }
        });
        Self {
            address,
            line,
            last_request,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is answered from now on, without the line end.
    pub(crate) fn say(&self, line: &str) {
        line.clone_into(&mut self.line.lock().expect("no holder panics"));
    }

    pub(crate) fn last_request(&self) -> String {
        self.last_request.lock().expect("no holder panics").clone()
    }
}

fn answer(mut stream: TcpStream, line: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut buffer = [0; 1024];
    let count = stream.read(&mut buffer)?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    // HAProxy closes first, so that the sockets of its many polls leave nothing behind here.
    io::copy(&mut stream, &mut io::sink()).ok();
    Ok(String::from_utf8_lossy(&buffer[..count]).into_owned())
}
