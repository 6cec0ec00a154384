//! What the service keeps: it is its own, and nothing that somebody put there is followed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::harness::folder::Folder;
use crate::harness::process::run;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

/// Whatever the caller's umask lets others do.
const ANY_UMASK: [&str; 5] = ["sh", "-c", r#"umask 000; exec "$@""#, "sh", "env"];

fn mode(path: &Path) -> u32 {
    let metadata = fs::symlink_metadata(path);
    let metadata = metadata.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    metadata.permissions().mode() & 0o7777
}

/// A service that keeps what it knows in a folder that it makes.
fn keeping(folder: &Folder) -> (StateFolder, Tidegate) {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let data = folder.join("data").display().to_string();
    let launcher = ANY_UMASK.map(str::to_owned);
    let arguments = ["--kv", &state.kv(), "--data-dir", &data];
    let mut service = Tidegate::launch_behind(&launcher, &arguments, &[]);
    service.await_ready();
    (state, service)
}

#[test]
fn what_is_kept_is_the_services_own_whatever_the_umask() {
    let folder = Folder::new("kept");
    let (_state, mut service) = keeping(&folder);
    service.ask("web/cny canary node=lb-1\n");
    assert_eq!(service.stop(), Some(0));
    let data = folder.join("data");
    assert_eq!(mode(&data), 0o700);
    for name in ["memory", "fleet"] {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}");
    }
    let others = fs::read_dir(&data).expect("it is there").count();
    assert_eq!(others, 2, "nothing else is kept");
}

#[test]
fn a_link_where_something_is_written_is_replaced_and_not_followed() {
    let folder = Folder::new("planted");
    let victim = folder.write("victim", "another program's");
    let data = folder.join("data");
    fs::create_dir(&data).expect("the folder takes folders");
    for name in ["memory.new", "fleet.new"] {
        symlink(&victim, data.join(name)).expect("a link");
    }
    let (_state, mut service) = keeping(&folder);
    service.ask("web/cny canary node=lb-1\n");
    eventually("the listing is kept", PATIENCE, || {
        check(data.join("memory").is_file(), || "no file".to_owned())
    });
    assert_eq!(service.stop(), Some(0));
    let text = fs::read_to_string(&victim).expect("it is there");
    assert_eq!(text, "another program's");
    for name in ["memory", "fleet"] {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}");
        assert!(!data.join(name).is_symlink(), "{name}");
    }
}

#[test]
fn a_link_or_a_pipe_in_place_of_what_was_kept_ends_the_start_with_its_name() {
    let state = StateFolder::new();
    let kv = state.kv();
    let folder = Folder::new("planted");
    let secret = folder.write("secret", "another program's secret");
    let plant = |name: &str, put: &dyn Fn(&Path)| {
        let data = folder.join(name);
        fs::create_dir(&data).expect("the folder takes folders");
        put(&data.join("memory"));
        let data = data.display().to_string();
        let mut serve = vec!["serve", "--env", "gprd", "--kv", &kv, "--data-dir", &data];
        serve.extend([
            "--agent-listen",
            "127.0.0.1:0",
            "--http-listen",
            "127.0.0.1:0",
        ]);
        let output = tidegate(&serve, &[]);
        assert_eq!(output.code, Some(1), "{name}: {output:?}");
        let said = output
            .stderr
            .contains("memory: no regular file; take it away");
        assert!(
            said && !output.stderr.contains("secret"),
            "{name}: {output:?}"
        );
    };
    plant("link", &|memory| symlink(&secret, memory).expect("a link"));
    plant("pipe", &|memory| {
        let mut command = Command::new("mkfifo");
        command.arg(memory);
        assert_eq!(run("mkfifo", &command, PATIENCE).code, Some(0));
    });
    plant("folder", &|memory| {
        fs::create_dir(memory).expect("a folder");
    });
}

/// A secret that others can read is used, and told of.
#[test]
fn a_secret_file_that_others_can_read_is_a_warning() {
    let state = StateFolder::new();
    let folder = Folder::new("modes");
    let file = folder.write("token", "a-token-for-who-may-see");
    let name = file.display().to_string();
    let arguments = ["--kv", &state.kv(), "--http-token-file", &name];
    let warned = "others than its owner and group can read the token";
    for (mode, is_told) in [(0o644, true), (0o620, true), (0o640, false), (0o600, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
        let mut service = Tidegate::start(&arguments);
        let told = service.process().log_text().contains(warned);
        assert_eq!(told, is_told, "{mode:o}");
    }
}
