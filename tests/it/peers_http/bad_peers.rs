//! Who does not answer as a peer does: only a refused connection counts as dead.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use tidegate::domain::authority::Heard;
use tidegate::peers::{Ask as _, Peer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::{LIMIT, ask, asking, expect_silence, name};
use crate::harness::ports::Port;

/// The limit of questions that are never answered.
const SHORT: Duration = Duration::from_millis(300);
/// How late the end of such a question may be, on a loaded machine.
pub(super) const LATE_MAX: Duration = Duration::from_secs(2);
pub(super) const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";

#[tokio::test]
async fn a_refused_connection_is_a_dead_peer() {
    let port = Port::reserve(Ipv4Addr::LOCALHOST.into());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
    assert_eq!(ask(address, LIMIT).await, Heard::Refused);
    // So it is when a name leads there.
    let named = Peer {
        slot: name("b"),
        url: format!("http://localhost:{}", port.number()),
    };
    assert_eq!(asking(None, LIMIT).ask(&named, None).await, Heard::Refused);
}

#[tokio::test]
async fn a_peer_that_does_not_exist_is_not_dead() {
    let unknown = Peer {
        slot: name("b"),
        url: "http://replica-b.invalid:1".to_owned(),
    };
    expect_silence(&asking(None, LIMIT).ask(&unknown, None).await, "");
}

#[tokio::test]
async fn who_accepts_and_says_nothing_is_silent_in_time() {
    let begun = Instant::now();
    let heard = heard_from(SHORT, async |stream| wait_for_ever(stream).await).await;
    expect_silence(&heard, "no whole answer within the time");
    assert!(begun.elapsed() < SHORT + LATE_MAX, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn who_answers_a_byte_at_a_time_is_silent_in_time() {
    let begun = Instant::now();
    let heard = heard_from(SHORT, drip).await;
    expect_silence(&heard, "no whole answer within the time");
    assert!(begun.elapsed() < SHORT + LATE_MAX, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn who_resets_or_hangs_up_is_not_dead() {
    let reset = async |stream: TcpStream| {
        set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(())
    };
    expect_silence(&heard_from(LIMIT, reset).await, "");
    expect_silence(&heard_from(LIMIT, async |_| Ok(())).await, "");
    let cut = async |mut stream: TcpStream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"prefix\":";
        stream.write_all(head).await
    };
    expect_silence(&heard_from(LIMIT, cut).await, "");
}

#[tokio::test]
async fn an_endless_answer_is_left_at_its_limit() {
    let heard = heard_from(Duration::from_secs(20), endless).await;
    expect_silence(&heard, "larger than");
}

#[tokio::test]
async fn what_is_no_word_is_silence_that_says_why() {
    for (answer, text) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "no word of a replica"),
        ("HTTP/1.1 200 OK\r\n\r\n{}", "no word of a replica"),
        ("HTTP/1.1 401 No\r\n\r\n", "give all replicas the same"),
        ("HTTP/1.1 403 No\r\n\r\n", "only its own machine"),
        ("HTTP/1.1 404 No\r\n\r\n", "no replica with peers"),
        ("HTTP/1.1 503 No\r\n\r\n", "too many questions"),
        ("HTTP/1.1 500 No\r\n\r\n", "answers 500"),
        // Where it leads is not asked: the other one would be taken for this peer.
        (
            "HTTP/1.1 307 No\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
            "answers 307",
        ),
        ("SSH-2.0-OpenSSH\r\n", ""),
    ] {
        let say = async |mut stream: TcpStream| stream.write_all(answer.as_bytes()).await;
        expect_silence(&heard_from(LIMIT, say).await, text);
    }
}

/// One question to a listener that reads the request, and then does this.
async fn heard_from(limit: Duration, answer: impl AsyncFn(TcpStream) -> io::Result<()>) -> Heard {
    serving(answer, async |address| ask(address, limit).await).await
}

/// What comes of asking a listener that reads each request, and then does this.
pub(super) async fn serving<T>(
    answer: impl AsyncFn(TcpStream) -> io::Result<()>,
    asking: impl AsyncFnOnce(SocketAddr) -> T,
) -> T {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a loopback port is free");
    let address = listener.local_addr().expect("it is bound");
    let serving = async {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => request.push(byte),
                    Err(_) => break,
                }
            }
            // The asker hung up: that is the end that many of these wait for.
            let _ = answer(stream).await;
        }
    };
    tokio::select! {
        biased;
        heard = asking(address) => heard,
        () = serving => unreachable!("it serves for ever"),
    }
}

/// A good head, and then a byte now and then.
pub(super) async fn drip(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(HEAD).await?;
    loop {
        stream.write_all(b" ").await?;
        sleep(Duration::from_millis(20)).await;
    }
}

/// A good head, and then more than anybody takes.
pub(super) async fn endless(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(HEAD).await?;
    let chunk = vec![b' '; 1 << 20];
    loop {
        stream.write_all(&chunk).await?;
    }
}

pub(super) async fn wait_for_ever(mut stream: TcpStream) -> io::Result<()> {
    stream.read_to_end(&mut Vec::new()).await.map(|_| ())
}
