//! Who is told of changes: an HTTP server that keeps what it was sent and answers as it is told to.
//! It ends with the test's process.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// 302, to itself.
    Redirect,
    /// 200, and a body without an end.
    EndlessBody,
    Never,
}

/// What it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

pub(crate) struct Receiver {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Receiver {
    pub(crate) fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener.local_addr().expect("it is bound");
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                // Whoever asks gives up, and ends it.
                thread::spawn(move || treat(&stream, answer, &kept));
            }
        });
        Self { address, sent }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything since the last time, in the order in which it came.
    pub(crate) fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().expect("no holder panics"))
    }
}

fn treat(stream: &TcpStream, answer: Answer, kept: &Mutex<Vec<Sent>>) -> io::Result<()> {
    let sent = read(stream)?;
    let location = sent.path.clone();
    kept.lock().expect("no holder panics").push(sent);
    let mut stream = stream;
    match answer {
        Answer::Status(status) => {
            write!(
                stream,
                "HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n"
            )
        }
        Answer::Redirect => write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ),
        Answer::EndlessBody => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let chunk = [b"1000\r\n".as_slice(), &[b'x'; 4_096], b"\r\n"].concat();
            loop {
                stream.write_all(&chunk)?;
            }
        }
        Answer::Never => io::copy(&mut stream, &mut io::sink()).map(drop),
    }
}

fn read(stream: &TcpStream) -> io::Result<Sent> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Sent {
        path,
        authorization,
        body: serde_json::from_slice(&body)?,
    })
}
