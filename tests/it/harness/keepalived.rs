//! A real keepalived, on a machine of a test.

use std::process::Command;

use super::folder::Folder;
use super::netns::Space;
use super::process::{Output, Process, behind, run};
use super::tools::tool;
use super::wait::{PATIENCE, check};

/// One running keepalived; it gives its addresses back at its end.
pub(crate) struct Keepalived {
    process: Process,
    /// Holds configuration, process ids and log.
    _folder: Folder,
}

impl Keepalived {
    /// `id` is which of the machines of the configuration this is.
    pub(crate) fn start_in(space: &Space, id: &str, config: &str) -> Self {
        let folder = Folder::new("keepalived");
        let file = folder.write("keepalived.conf", config);
        let mut command = behind(&space.launcher(), tool("keepalived"));
        command
            .args(["--dont-fork", "--log-console", "--no-syslog", "--vrrp"])
            .args(["--config-id", id, "--use-file"])
            .arg(file);
        for (flag, name) in [("--pid", "pid"), ("--vrrp_pid", "vrrp-pid")] {
            command.arg(flag).arg(folder.join(name));
        }
        Self {
            process: Process::start("keepalived", folder.path(), &command),
            _folder: folder,
        }
    }

    /// Whether it takes a configuration on that machine, without a word; the error is what it says.
    pub(crate) fn accepts(id: &str, config: &str) -> Result<(), String> {
        // It looks for its interface, in a network of its own.
        const SCRIPT: &str = "ip link add eth0 type veth peer name peer && ip link set eth0 up && \
                              exec \"$@\"";
        let folder = Folder::new("keepalived-check");
        // Version 2.2.7 ends its own check by SIGTERM once it has looked at a script of another
        // user than root's.
        let config = config.replace("script_user nobody", "script_user root");
        let file = folder.write("keepalived.conf", &config);
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--", "sh", "-c", SCRIPT, "sh"])
            .arg(tool("keepalived"))
            .args(["--config-test", "--config-id", id, "--use-file"])
            .arg(file);
        let Output {
            code,
            stdout,
            stderr,
        } = run("keepalived-check", &command, PATIENCE);
        check(
            code == Some(0) && stdout.is_empty() && stderr.is_empty(),
            || format!("{code:?}: {stdout}{stderr}"),
        )
    }

    /// The running process, for its log.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
