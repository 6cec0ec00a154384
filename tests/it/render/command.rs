//! `tidegate render` as a command: what it prints and writes, and how it ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::harness::folder::Folder;
use crate::harness::process::Output;
use crate::harness::tidegate::tidegate;

const FILE: &str = "global
    log stdout local0

defaults
    option log-health-checks
    default-server check

backend web # all
    server gke-b 127.0.0.1:1 weight 100 # the zone's
    server gke-cny-web 127.0.0.1:2 weight 100

backend api
    server gke-b 127.0.0.1:1 weight 100
    server gke-c 127.0.0.1:1 weight 100
";
const ASK: [&str; 2] = ["--agent", "10.0.0.9:8790"];

fn render(arguments: &[&str]) -> Output {
    tidegate(&[&["render"], arguments].concat(), &[])
}

fn written(folder: &Folder, name: &str, text: &str) -> String {
    folder.write(name, text).display().to_string()
}

#[test]
fn the_words_of_one_row_are_printed() {
    let row = [
        "--row",
        "web/gke-cny-web",
        "--base",
        "100",
        "--zone",
        "$LB_ZONE",
    ];
    let output = render(&[&row[..], &ASK, &["--group", "canary", "--group", "ci"]].concat());
    assert_eq!(
        output.stdout,
        "agent-check agent-addr 10.0.0.9 agent-port 8790 agent-inter 2s agent-send \
         \"web/gke-cny-web canary ci node=${HAPROXY_LOCALPEER} zone=${LB_ZONE} base=100\\n\" \
         weight 100 disabled\n"
    );
    let output = render(&[&row[..], &ASK, &["--mode", "shadow"]].concat());
    assert!(output.stdout.contains(" canary node="), "{output:?}");
    assert!(
        output
            .stdout
            .ends_with("base=100 mode=shadow\\n\" weight 100\n"),
        "{output:?}"
    );
    let output = render(&[&row[..], &ASK, &["--mode", "off"]].concat());
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""));
}

#[test]
fn each_backend_has_its_mode_and_others_stay_as_they_are() {
    let folder = Folder::new("render-backends");
    let file = written(&folder, "haproxy.cfg", FILE);
    let ask = |more: &[&str]| {
        let output = render(&[&[&file[..]], more, &ASK].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    };
    let mixed = ask(&["--backend", "web=shadow", "--backend", "api=on"]);
    assert_eq!(mixed.matches("mode=shadow").count(), 2, "{mixed}");
    assert_eq!(mixed.matches(" agent-check ").count(), 4, "{mixed}");
    assert!(!mixed.contains("disabled"), "{mixed}");
    let one = ask(&["--backend", "web", "--mode", "on"]);
    assert_eq!(one.matches(" agent-check ").count(), 2, "{one}");
    assert!(
        one.contains("    server gke-b 127.0.0.1:1 weight 100\n"),
        "{one}"
    );
    // One of two back: what the process needs stays.
    let file = written(&folder, "mixed.cfg", &mixed);
    let output = render(&[&file, "--backend", "api=off"]);
    assert!(output.stdout.contains("max-spread-checks"), "{output:?}");
    let file = written(&folder, "one.cfg", &output.stdout);
    assert_eq!(render(&[&file, "--mode", "off"]).stdout, FILE);
}

#[test]
fn several_files_are_written_to_a_folder_and_none_is_overwritten() {
    let folder = Folder::new("render-files");
    let (head, backends) = FILE.split_once("backend web").expect("it stands there");
    let first = written(&folder, "haproxy.cfg", head);
    fs::create_dir(folder.join("conf")).expect("the folder is new");
    written(&folder, "conf/web.cfg", &format!("backend web{backends}"));
    fs::set_permissions(&first, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let conf = folder.join("conf").display().to_string();
    let both = [&first[..], &conf, "--mode", "on"];
    let output = render(&[&both[..], &ASK].concat());
    assert_eq!(output.code, Some(2), "{output:?}");
    let to = folder.join("new");
    let to_text = to.display().to_string();
    let all = [&both[..], &ASK, &["--output-dir", &to_text]].concat();
    let output = render(&all);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(0), ""),
        "{output:?}"
    );
    let new = |name: &str| -> PathBuf { to.join(name) };
    let read = |name: &str| fs::read_to_string(new(name)).expect("it was written");
    assert!(read("haproxy.cfg").contains("max-spread-checks 50ms"));
    assert!(read("web.cfg").contains("agent-send \"web/gke-b node="));
    let mode = fs::metadata(new("haproxy.cfg"))
        .expect("it was written")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    let again = render(&all);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(
        again
            .stderr
            .contains("is there already, and nothing was written"),
        "{again:?}"
    );
}

#[test]
fn what_was_left_or_warned_of_is_told_beside_the_file() {
    let folder = Folder::new("render-remarks");
    let text = format!("{FILE}    server-template t 1-2 127.0.0.1:5\n");
    let file = written(
        &folder,
        "haproxy.cfg",
        &text.replace("weight 100 # the", "weight 90 # the"),
    );
    let all = [&[&file[..], "--mode", "on"][..], &ASK].concat();
    let output = render(&all);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output
            .stderr
            .contains("api/t is left as it is: all servers of a template"),
        "{output:?}"
    );
    assert!(
        output.stderr.contains("warning: web/gke-b has weight 90"),
        "{output:?}"
    );
    let strict = render(&[&all[..], &["--strict"]].concat());
    assert_eq!((strict.code, strict.stdout), (Some(10), output.stdout));
}

#[test]
fn nothing_is_printed_that_lint_refuses() {
    let folder = Folder::new("render-refused");
    let file = written(
        &folder,
        "haproxy.cfg",
        &FILE.replace("2 weight 100", "2 weight 0"),
    );
    let output = render(&[&[&file[..], "--mode", "on"][..], &ASK].concat());
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(3), ""),
        "{output:?}"
    );
    assert!(
        output
            .stderr
            .contains("web/gke-cny-web has weight 0 [weight-zero]"),
        "{output:?}"
    );
    // A variable that nobody is known to set.
    let file = written(&folder, "variable.cfg", FILE);
    let zone = [&[&file[..], "--mode", "on", "--zone", "$LB_ZONE"][..], &ASK].concat();
    assert_eq!(render(&zone).code, Some(3));
    assert_eq!(
        render(&[&zone[..], &["--variable", "LB_ZONE=b"]].concat()).code,
        Some(0)
    );
    for (wrong, why) in [
        (&["--mode", "on"][..], "web/gke-b asks nobody yet"),
        (
            &["--mode", "on", "--agent", "tidegate:8790"],
            "write an address and a port",
        ),
        (&["--backend", "gone=off"], "no backend is called \"gone\""),
        (&["--backend", "web"], "say its mode, as in web=shadow"),
        (&["--mode", "on", "--zone", "a b"], "\"a b\""),
        (
            &["--mode", "on", "--inter", "1ns"],
            "write whole milliseconds",
        ),
        (&[], "--mode"),
    ] {
        let output = render(&[&[&file[..]], wrong].concat());
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(why), "{why}: {output:?}");
    }
}
