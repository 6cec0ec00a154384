//! What a new instance runs at its first start, against a stand-in for Google's HTTP.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::ENVIRONMENTS;
use super::rendered::{instances, text_of};
use crate::harness::folder::Folder;
use crate::harness::process::{Output, run};
use crate::harness::terraform::Terraform;
use crate::harness::wait::PATIENCE;

const TOKEN: &str = r#"{"access_token":"access-of-the-instance","expires_in":3599}"#;
const TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const PACKAGE: &str = "the bytes of a package";
/// `sha256sum` of them.
const PACKAGE_SHA256: &str = "96cd7e5760a46d7fe63c8d4688ee2db6061ce375ea11350f8161685f917fe8f6";

/// Answers GETs by their path, and keeps what was asked.
struct Google {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

#[test]
fn the_secrets_are_fetched_as_the_instance_and_kept_for_root_alone() {
    let google = Google::start(&[
        (TOKEN_PATH, TOKEN),
        (
            &secret_path("tidegate-consul-token"),
            r#"{"payload":{"data":"c2VjcmV0LW9uZQ=="}}"#,
        ),
        (
            &secret_path("tidegate-peers-token"),
            r#"{"payload":{"data":"c2VjcmV0LXR3bw=="}}"#,
        ),
    ]);
    let folder = Folder::new("first-start");
    let output = google.run(&folder, "tidegate-secrets");
    assert_eq!(output.code, Some(0), "{output:?}");
    for (file, secret) in [
        ("tidegate.consul-token", "secret-one"),
        ("tidegate.peers-token", "secret-two"),
    ] {
        let path = folder.join(file);
        assert_eq!(
            fs::read_to_string(&path).unwrap_or_default(),
            secret,
            "{file}"
        );
        let mode = fs::metadata(&path)
            .expect("the file is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let said = output.stdout + &output.stderr;
    assert!(
        !said.contains("secret-") && !said.contains("access-"),
        "{said}"
    );
    let asked = google.asked.lock().expect("no holder panics").join("\n");
    assert!(asked.contains("Metadata-Flavor: Google"), "{asked}");
    assert_eq!(
        asked
            .matches("Authorization: Bearer access-of-the-instance")
            .count(),
        2,
        "{asked}"
    );
}

#[test]
fn a_secret_that_cannot_be_had_ends_the_first_start_and_leaves_no_file() {
    let google = Google::start(&[(TOKEN_PATH, TOKEN)]);
    let folder = Folder::new("first-start");
    let output = google.run(&folder, "tidegate-secrets");
    assert_ne!(output.code, Some(0), "{output:?}");
    assert!(!folder.join("tidegate.consul-token").exists());
}

#[test]
fn the_package_is_installed_when_its_bytes_are_right_and_not_otherwise() {
    let google = Google::start(&[
        (TOKEN_PATH, TOKEN),
        ("/example-packages/tidegate_0.1.0_amd64.deb", PACKAGE),
    ]);
    let folder = Folder::new("first-start");
    let refused = google.run(&folder, "tidegate-install");
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(!refused.stdout.contains("installs"), "{refused:?}");
    let asked = google.asked.lock().expect("no holder panics").join("\n");
    assert!(
        asked.contains("Authorization: Bearer access-of-the-instance"),
        "{asked}"
    );

    let script = fs::read_to_string(folder.join("script")).expect("the script was written");
    let script = script.replace(&"0".repeat(64), PACKAGE_SHA256);
    let output = shell(&folder, &script);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("installs"), "{output:?}");
}

impl Google {
    fn start(answers: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let answers: Vec<_> = answers
            .iter()
            .map(|(path, body)| ((*path).to_owned(), (*body).to_owned()))
            .collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let request = head_of(&mut stream);
                let path = request.split(' ').nth(1).unwrap_or_default();
                let answer = match answers.iter().find(|(known, _)| known == path) {
                    Some((_, body)) => {
                        format!("200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                    }
                    None => "404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
                };
                heard.lock().expect("no holder panics").push(request);
                // Who has gone needs no answer.
                write!(stream, "HTTP/1.1 {answer}").ok();
            }
        });
        Self { address, asked }
    }

    /// Runs a script of a new instance, with Google's hosts and the machine's own places elsewhere,
    /// and what it would do to this machine only said.
    fn run(&self, folder: &Folder, script: &str) -> Output {
        let terraform = Terraform::new();
        let files = &instances(&terraform.tree(), ENVIRONMENTS[0])[0];
        let text = text_of(files, &format!("/usr/local/sbin/{script}"));
        let here = format!("http://{}", self.address);
        let own = folder.path().display().to_string();
        let mut text = text.to_owned();
        for (there, here) in [
            ("http://metadata.google.internal", here.as_str()),
            ("https://secretmanager.googleapis.com", &here),
            ("https://storage.googleapis.com", &here),
            ("/etc/credstore", &own),
            ("/var/cache", &own),
            // A minute of patience with a network that comes up.
            ("--retry 10", "--retry 0"),
            ("apt-get", "echo installs"),
            ("systemctl", "echo"),
        ] {
            text = text.replace(there, here);
        }
        shell(folder, &text)
    }
}

fn shell(folder: &Folder, script: &str) -> Output {
    let mut command = Command::new("sh");
    command.arg(folder.write("script", script));
    run("first-start", &command, PATIENCE)
}

fn secret_path(secret: &str) -> String {
    format!("/v1/projects/example-gprd/secrets/{secret}/versions/latest:access")
}

/// A request up to its empty line.
fn head_of(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}
