//! The forms of a request: what HAProxy sends, and what else arrives at an open port.

use std::io::Write;
use std::time::{Duration, Instant};

use super::{UNKNOWN_REQUEST, check_answer, service};
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::let_pass;

/// Between two segments of one request: well below the 100 ms that end it.
const PAUSE: Duration = Duration::from_millis(50);

/// The request's bytes in segments, and the words of the answer.
struct Form {
    name: &'static str,
    segments: Vec<Vec<u8>>,
    words: &'static str,
}

#[test]
fn every_form_of_a_request_gets_its_answer() {
    let (_state, tidegate) = service();
    // All at once: a connection that its peer keeps open lasts half a second.
    std::thread::scope(|scope| {
        for form in readable().into_iter().chain(unreadable()).chain(foreign()) {
            let tidegate = &tidegate;
            scope.spawn(move || form.check(tidegate));
        }
    });
}

#[test]
fn a_request_without_a_line_end_is_answered_after_a_silence_of_100_ms() {
    let (_state, tidegate) = service();
    let begin = Instant::now();
    let answer = tidegate.ask("web/cny canary");
    let span = begin.elapsed();
    check_answer("no line end", &answer, "up drain");
    println!("answered after {span:?}");
    assert!(span >= Duration::from_millis(100), "{span:?}");
    assert!(span < Duration::from_millis(400), "{span:?}");
}

#[test]
fn a_request_with_its_line_end_is_answered_at_once() {
    let (_state, tidegate) = service();
    let fastest = (0..20).map(|_| {
        let begin = Instant::now();
        check_answer(
            "in one segment",
            &tidegate.ask("web/cny canary\n"),
            "up drain",
        );
        begin.elapsed()
    });
    let fastest = fastest.min().expect("there are twenty");
    println!("answered after {fastest:?}");
    assert!(fastest < Duration::from_millis(20), "{fastest:?}");
}

#[test]
fn a_peer_that_says_nothing_is_told_so_after_a_second() {
    let (_state, tidegate) = service();
    let begin = Instant::now();
    let answer = tidegate.ask("");
    let span = begin.elapsed();
    check_answer("nothing", &answer, UNKNOWN_REQUEST);
    assert!(span >= Duration::from_secs(1), "{span:?}");
    assert!(span < Duration::from_millis(1_500), "{span:?}");
}

#[test]
fn a_line_that_comes_late_is_answered() {
    let (_state, tidegate) = service();
    let mut stream = tidegate.connect();
    let_pass(Duration::from_millis(600));
    stream
        .write_all(b"web/cny canary\n")
        .expect("the connection is held for a second");
    let mut answer = [0; 64];
    let length = std::io::Read::read(&mut stream, &mut answer).expect("there is an answer");
    check_answer("a late line", &answer[..length], "up drain");
}

#[test]
fn a_request_that_drips_in_is_given_up_after_a_second() {
    let (_state, tidegate) = service();
    let mut stream = tidegate.connect();
    let begin = Instant::now();
    // It would be a good request in the end. The answer comes before that.
    for byte in b"web/cny canary node=lb-1" {
        stream
            .write_all(&[*byte])
            .expect("the connection is held for a second");
        let_pass(Duration::from_millis(50));
        if begin.elapsed() > Duration::from_millis(1_100) {
            break;
        }
    }
    let mut answer = [0; 64];
    let length = std::io::Read::read(&mut stream, &mut answer).expect("there is an answer");
    check_answer("a drip", &answer[..length], UNKNOWN_REQUEST);
    assert!(begin.elapsed() < Duration::from_secs(2));
}

/// HAProxy's own requests: configured, or set at run time.
fn readable() -> Vec<Form> {
    let long = long_request(1_024);
    let all = "web/cny canary ci node=lb-9 zone=us-east1-b base=100 mode=shadow\n";
    let mut forms = vec![
        Form::new("a line", "web/cny canary\n", "up drain"),
        Form::new("CRLF", "web/cny canary\r\n", "up drain"),
        Form::new("blanks", "  web/cny \t canary  \n", "up drain"),
        Form::new("no newline", "web/cny canary", "up drain"),
        Form::new("quotes", "\"web/cny canary\"\n", "up drain"),
        Form::new("quotes, literal \\n", r#""web/cny canary\n""#, "up drain"),
        Form::new("single quotes", r"'web/cny canary\n'", "up drain"),
        Form::new("literal \\n", r"web/cny canary\n", "up drain"),
        Form::new("more behind", "web/cny canary\nweb/slow\n", "up drain"),
        Form::new("all keys", all, "shadow-ready-20"),
        Form::new("1,024 bytes", long, "up ready 100%"),
    ];
    let split = [&b"web/cn"[..], b"y canary\n"].map(<[u8]>::to_vec);
    forms.push(Form::in_segments("two segments", split, "up drain"));
    for (request, words) in [
        ("web/any\n", "up ready 100%"),
        ("web/slow\n", "up ready 40%"),
        ("web/slow base=2\n", "up ready 50%"),
        ("web/slow base=256\n", "up ready 40%"),
        ("web/slow mode=shadow\n", "shadow-ready-40"),
        ("web/cny canary node=lb-1\n", "up ready 100%"),
        ("web/cny canary zone=us-east1-b\n", "up ready 20%"),
        ("web/cny ci\n", "up ready 60%"),
        ("web/cny ci canary\n", "up ready 60%"),
        ("web/cny misspelt\n", "unknown-group"),
        ("web/cny misspelt canary\n", "unknown-group"),
        ("web/cny canary misspelt\n", "up drain"),
        ("web/cny broken\n", "unknown-directive"),
    ] {
        forms.push(Form::new(request, request, words));
    }
    forms
}

/// Typing errors, which must be seen.
fn unreadable() -> Vec<Form> {
    [
        "\n",
        "\r\n",
        "web\n",
        "/web\n",
        "web/cny/more\n",
        "web/cny node=\n",
        "web/cny zone= node=lb-1\n",
        "web/cny node=a node=a\n",
        "web/cny zone=a zone=b\n",
        "web/cny colour=blue\n",
        "web/cny key=\n",
        "web/cny canary canary\n",
        "web/cny node=lb-1 canary\n",
        "web/cny a b c d e f g h i\n",
        "web/cny base=0\n",
        "web/cny base=257\n",
        "web/cny base=+9\n",
        "web/cny mode=dark\n",
        "%[srv_name] canary\n",
        "web/cny canary;drain\n",
        "web/cny canary\0\n",
        "wéb/cny\n",
    ]
    .map(|request| Form::new(request, request, UNKNOWN_REQUEST))
    .into()
}

/// What is no request of HAProxy's at all.
fn foreign() -> Vec<Form> {
    // A ClientHello: record header, handshake header, version, and bytes that stand for the rest.
    let mut hello = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    hello.extend((0..=255).filter(|byte| *byte != b'\n').cycle().take(506));
    let http = "GET /livez HTTP/1.1\r\nHost: tidegate\r\nUser-Agent: curl/8\r\n\r\n";
    let every_byte: Vec<u8> = (0..=255).collect();
    let more = vec![b'x'; 30 << 10];
    // Closing while bytes arrive would reset the connection: the peer could not even write.
    let flood = [long_request(1_025), more.clone(), more.clone()];
    let behind = [b"web/slow\n".to_vec(), more.clone(), more];
    vec![
        Form::new("binary", every_byte, UNKNOWN_REQUEST),
        Form::new("not UTF-8", b"web/cny\xff\n", UNKNOWN_REQUEST),
        Form::new("NUL bytes", vec![0; 700], UNKNOWN_REQUEST),
        Form::new("TLS ClientHello", hello, UNKNOWN_REQUEST),
        Form::new("HTTP", http, UNKNOWN_REQUEST),
        Form::new("1,025 bytes", long_request(1_025), UNKNOWN_REQUEST),
        Form::in_segments("1,025 bytes and 60 KiB", flood, UNKNOWN_REQUEST),
        Form::in_segments("a line and 60 KiB", behind, "up ready 40%"),
    ]
}

/// A request of so many bytes with its newline, readable if it were not too long.
fn long_request(bytes: usize) -> Vec<u8> {
    let mut request = b"web/any".to_vec();
    request.resize(bytes - 1, b' ');
    request.push(b'\n');
    request
}

impl Form {
    fn new(name: &'static str, request: impl AsRef<[u8]>, words: &'static str) -> Self {
        Self {
            name,
            segments: vec![request.as_ref().to_vec()],
            words,
        }
    }

    fn in_segments(
        name: &'static str,
        segments: impl Into<Vec<Vec<u8>>>,
        words: &'static str,
    ) -> Self {
        Self {
            name,
            segments: segments.into(),
            words,
        }
    }

    fn check(&self, tidegate: &Tidegate) {
        let mut stream = tidegate.connect();
        stream.set_nodelay(true).expect("a TCP socket has it");
        for (at, segment) in self.segments.iter().enumerate() {
            if at > 0 {
                let_pass(PAUSE);
            }
            stream
                .write_all(segment)
                .expect("the service takes what is sent");
        }
        let answer = tidegate.read_to_end(&mut stream);
        check_answer(self.name, &answer, self.words);
    }
}
