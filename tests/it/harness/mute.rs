//! Whoever takes a question and never answers it whole. They end with the test's process.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::wait::let_pass;

/// How it fails to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The kernel takes the connection, the program never does.
    NeverAccepts,
    NeverAnswers,
    /// Headers follow each other, for ever.
    EndlessHead,
    /// A byte of the body each second.
    DrippingBody,
    /// Every other connection is closed, the others are never answered.
    Fickle,
}

impl Manner {
    pub(crate) const ALL: [Self; 5] = [
        Self::NeverAccepts,
        Self::NeverAnswers,
        Self::EndlessHead,
        Self::DrippingBody,
        Self::Fickle,
    ];
}

/// Listens on a free port of this machine.
pub(crate) fn start(manner: Manner) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        if manner == Manner::NeverAccepts {
            // It holds the listener, and nobody wakes it.
            loop {
                thread::park();
            }
        }
        for (number, stream) in listener.incoming().flatten().enumerate() {
            if manner == Manner::Fickle && number % 2 == 0 {
                continue;
            }
            // Whoever asks gives up, and ends it.
            thread::spawn(move || treat(stream, manner));
        }
    });
    address
}

fn treat(mut stream: TcpStream, manner: Manner) -> io::Result<()> {
    let (begin, more, pause) = match manner {
        Manner::NeverAccepts | Manner::NeverAnswers | Manner::Fickle => {
            while stream.read(&mut [0; 4_096])? > 0 {}
            return Ok(());
        }
        Manner::EndlessHead => ("HTTP/1.1 200 OK\r\n", "X-More: 1\r\n", 50),
        Manner::DrippingBody => {
            let head = "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\nX-Consul-KnownLeader: true\r\n\
                        Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
            (head, " ", 1_000)
        }
    };
    // The question comes with one segment.
    let asked = stream.read(&mut [0; 4_096])?;
    if asked == 0 {
        return Ok(());
    }
    stream.write_all(begin.as_bytes())?;
    loop {
        stream.write_all(more.as_bytes())?;
        let_pass(Duration::from_millis(pause));
    }
}
