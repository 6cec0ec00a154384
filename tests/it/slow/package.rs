//! The Debian package, as far as it can be looked at without installing it. `scripts/try-package`
//! installs it on a machine of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate::config::settings::{Default, SETTINGS};

use crate::harness::folder::Folder;
use crate::harness::process::{Output, run};

/// The debug build is large.
const BUILD_MAX: Duration = Duration::from_mins(3);

const UNIT: &str = "deploy/systemd/tidegate.service";

#[test]
fn the_package_holds_what_a_machine_needs_and_is_the_same_bytes_each_time() {
    let folder = Folder::new("package");
    let [one, other] = ["one", "other"].map(|name| build(&folder.join(name)));
    let bytes = |path: &Path| fs::read(path).expect("the package was written");
    assert!(bytes(&one) == bytes(&other), "two builds differ");
    let one = one.display().to_string();
    let listed = expect("dpkg-deb", &["--contents", &one]).stdout;
    for place in [
        "./usr/bin/tidegate",
        "./lib/systemd/system/tidegate.service",
        "./usr/lib/sysctl.d/60-tidegate.conf",
        "./etc/default/tidegate",
        "./etc/tidegate/",
        "./usr/share/man/man1/tidegate.1.gz",
        "./usr/share/man/man1/tidegate-canary.1.gz",
        "./usr/share/bash-completion/completions/tidegate",
        "./usr/share/zsh/vendor-completions/_tidegate",
        "./usr/share/fish/vendor_completions.d/tidegate.fish",
        "./usr/share/doc/tidegate/examples/tidegate.toml",
        "./usr/share/doc/tidegate/copyright",
        "./usr/share/doc/tidegate/third-party-licences.txt.gz",
        "./usr/bin/get-server-state -> tidegate",
        "./usr/bin/set-server-state -> tidegate",
        "./usr/share/man/man1/get-server-state.1.gz -> tidegate-get.1.gz",
    ] {
        let is_there = listed.lines().any(|line| line.ends_with(place));
        assert!(is_there, "no {place} in\n{listed}");
    }
    for line in listed.lines() {
        assert!(line.contains(" root/root "), "{line}");
    }
    let about = expect("dpkg-deb", &["--field", &one, "Version", "Depends"]).stdout;
    let version = concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(about.starts_with(version), "{about}");
    assert!(about.contains("libc6 (>= 2."), "{about}");
}

#[test]
fn the_unit_is_hardened() {
    let unit = repository().join(UNIT).display().to_string();
    let judged = |file: &str| {
        let mut command = Command::new("systemd-analyze");
        // 20 is an exposure of 2.0.
        command.args(["security", "--offline=true", "--threshold=20", file]);
        run("systemd-analyze", &command, BUILD_MAX)
    };
    let output = judged(&unit);
    assert_eq!(output.code, Some(0), "{output:?}");

    let text = fs::read_to_string(&unit).expect("the unit is there");
    let softer = text
        .replace("SystemCallFilter=", "#")
        .replace("CapabilityBoundingSet=", "#");
    let folder = Folder::new("unit");
    let softer = folder.write("tidegate.service", &softer);
    let output = judged(&softer.display().to_string());
    assert_ne!(output.code, Some(0), "a softer unit is noticed: {output:?}");
}

/// systemd gives up before the service does, or its last polls are cut off.
#[test]
fn the_unit_waits_longer_than_the_default_drain() {
    let text = fs::read_to_string(repository().join(UNIT)).expect("the unit is there");
    let stop = text
        .lines()
        .find_map(|line| line.strip_prefix("TimeoutStopSec="))
        .and_then(|span| span.strip_suffix('s'))
        .and_then(|seconds| seconds.parse::<u64>().ok())
        .expect("the unit says how long it waits");
    let drain = SETTINGS
        .iter()
        .find(|setting| setting.key == "drain_for")
        .expect("drain_for is a setting");
    let Default::Text(drain) = drain.default else {
        panic!("drain_for has a default");
    };
    let drain = drain.trim_end_matches('s').parse::<u64>();
    let drain = drain.expect("the default is in seconds");
    assert!(stop >= drain + 10, "{stop} s after {drain} s");
}

/// Builds the package with the program under test.
fn build(folder: &Path) -> PathBuf {
    let mut command = Command::new(repository().join("scripts/package"));
    command
        .arg(folder)
        .env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"))
        .env("SOURCE_DATE_EPOCH", "1767225600");
    let output = run("package", &command, BUILD_MAX);
    assert_eq!(output.code, Some(0), "{output:?}");
    let line = output.stdout.lines().last();
    PathBuf::from(line.expect("the package's place is printed last"))
}

fn expect(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = run(program, &command, BUILD_MAX);
    assert_eq!(output.code, Some(0), "{program} {arguments:?}: {output:?}");
    output
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
