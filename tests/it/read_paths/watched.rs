//! `status --watch`: at a terminal, and where there is none.

use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::folder::Folder;
use crate::harness::process::{Process, run};
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::StateFolder;
use crate::harness::terminal::{Terminal, at_a_terminal};
use crate::harness::tidegate::tidegate;
use crate::harness::wait::{PATIENCE, check, eventually, throughout};

/// Taken and given back: the other screen, no cursor, no broken lines.
pub(crate) const TAKEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
pub(crate) const GIVEN_BACK: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
const CTRL_Z: &[u8] = b"\x1a";
/// Two looks, before the nodes that poll no more are silent.
const LOOKS: Duration = Duration::from_millis(2_200);

/// Two replicas that four nodes poll, and a canary.
pub(crate) struct Scene {
    pub(crate) state: StateFolder,
    pub(crate) replicas: Replicas,
}

impl Scene {
    pub(crate) fn start() -> Self {
        let state = StateFolder::new();
        state.put("canary-state", "drain");
        let replicas = Replicas::start(2, &["--kv", &state.kv()], &[]);
        let scene = Self { state, replicas };
        scene.poll();
        scene
    }

    /// Every node asks once.
    pub(crate) fn poll(&self) {
        for (number, replica) in [0, 1, 0, 1].into_iter().enumerate() {
            let line = format!("web/gke-cny-web canary node=lb-{number} zone=b");
            self.replicas.all[replica].ask_line(&line);
        }
    }

    fn arguments(&self) -> Vec<String> {
        let mut all = vec![
            "--env".to_owned(),
            "gprd".to_owned(),
            "--kv".to_owned(),
            self.state.kv(),
        ];
        for replica in &self.replicas.all {
            all.extend(["--replica".to_owned(), format!("http://{}", replica.http())]);
        }
        all
    }

    pub(crate) fn watch(&self, environment: &[(&str, &str)], size: (usize, usize)) -> Terminal {
        let arguments = self.arguments();
        let words = arguments.iter().map(String::as_str);
        let all: Vec<_> = ["status", "--watch=1s"].into_iter().chain(words).collect();
        Terminal::start(&all, environment, size)
    }
}

#[test]
fn a_watch_that_is_ended_or_stopped_gives_the_terminal_back_and_without_colours_has_none() {
    let scene = Scene::start();
    let mut terminal = scene.watch(&[("NO_COLOR", "1")], (80, 24));
    terminal.await_picture("it is drained", |seen| seen.contains("Canary  drain"));
    terminal.type_keys(CTRL_Z);
    terminal.await_stopped();
    terminal.go_on();
    eventually("it is taken again", PATIENCE, || {
        let written = terminal.written();
        let given_back = written.split(GIVEN_BACK).nth(1);
        let taken = given_back.is_some_and(|after| after.starts_with(TAKEN));
        check(taken, || written)
    });
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.await_end(), Some(143));
    let written = terminal.written();
    assert!(written.ends_with(GIVEN_BACK), "{written:?}");
    let coloured = written.split("\x1b[").skip(1).any(|rest| {
        let code = rest.split_once('m').map(|(code, _)| code);
        code.is_some_and(|code| code.chars().all(|c| c.is_ascii_digit() || c == ';'))
    });
    assert!(!coloured, "{written:?}");
}

#[test]
fn without_a_terminal_each_change_is_a_line_and_as_json_a_document() {
    let mut scene = Scene::start();
    let folder = Folder::new("watched");
    let watch = |name: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(["status", "--watch=1s"])
            .args(scene.arguments())
            .args(more);
        Process::start(name, folder.path(), &command)
    };
    let (text, json) = (watch("text", &[]), watch("json", &["--output", "json"]));
    text.await_log("SERVER", PATIENCE);
    json.await_log("}\n", PATIENCE);
    let b = format!("replica http://{}", scene.replicas.all[1].http());
    scene.replicas.all[1].kill();
    // Refused, or reset when it was asked just then.
    let away = format!("Z missing  {b}: Connection re");
    text.await_log(&away, PATIENCE);
    json.await_log(&format!("\"what\":\"{b}\""), PATIENCE);
    scene.replicas.all[1].start_again();
    text.await_log(&format!("Z no longer missing  {b}\n"), PATIENCE);
    scene.state.put("canary-state", "maint");
    for replica in &scene.replicas.all {
        let line = "web/gke-cny-web canary node=lb-0 zone=b";
        replica.await_answer(line, "up maint", PATIENCE);
    }
    scene.poll();
    text.await_log("on lb-3: desired maint, served maint", PATIENCE);
    // Before, there may be looks at which it is desired already, and not served yet.
    let told = |view: &Value| {
        let rows = view["rows"].to_string();
        rows.contains("\"answer\":\"maint\"") && !rows.contains("\"answer\":\"drain\"")
    };
    let views = eventually("the last change is a document", PATIENCE, || {
        let written = json.log_text();
        let views = written.lines().map(serde_json::from_str::<Value>);
        let views = views.collect::<Result<Vec<_>, _>>();
        let views = views.map_err(|error| format!("{error}: {written}"))?;
        check(views.last().is_some_and(told), || written)?;
        Ok(views)
    });
    throughout("a look without a change is no document", LOOKS, || {
        let written = json.log_text();
        check(written.lines().count() == views.len(), || written)
    });
    for written in [text.log_text(), json.log_text()] {
        assert!(!written.contains('\x1b'), "{written}");
    }
}

#[test]
fn a_watch_ends_when_its_reader_has_gone_though_nothing_changes() {
    let scene = Scene::start();
    let watch = |more: &str, environment: &str| {
        let command = format!(
            "{environment} {} status --watch=1s {more} {} | head -c 1 >/dev/null; \
             echo ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_tidegate"),
            scene.arguments().join(" "),
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", &command]);
        let output = run("watch", &shell, PATIENCE);
        assert_eq!((&*output.stdout, &*output.stderr), ("0\n", ""), "{command}");
    };
    // Side by side: each takes a second to notice.
    thread::scope(|threads| {
        threads.spawn(|| watch("", "A=1"));
        threads.spawn(|| watch("--output json", "A=1"));
        threads.spawn(|| watch("--output chatops", "TERM=dumb"));
    });
}

#[test]
fn a_watch_of_nothing_at_all_is_an_error_and_no_picture() {
    let state = StateFolder::new();
    state.remove("_meta");
    let kv = state.kv();
    let nobody = "http://127.0.0.1:1";
    let arguments = [
        "status",
        "--watch",
        "--env",
        "gprd",
        "--kv",
        &kv,
        "--replica",
        nobody,
    ];
    let elsewhere = tidegate(&arguments, &[]);
    let at_a_terminal = at_a_terminal(&arguments, &[("TERM".to_owned(), "xterm".to_owned())], "");
    for output in [elsewhere, at_a_terminal] {
        assert_eq!(output.code, Some(6), "{output:?}");
        let said = output.stdout + &output.stderr;
        assert!(said.contains("error: nothing could be had"), "{said}");
        assert!(!said.contains('\x1b'), "{said:?}");
    }
}
