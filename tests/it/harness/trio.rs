//! Three replicas on this machine that know each other, over one folder of state.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::consul::loopback;
use super::folder::Folder;
use super::ports::Port;
use super::state_folder::StateFolder;
use super::tidegate::{Place, Tidegate};

/// Their slots.
pub(crate) const SLOTS: [&str; 3] = ["a", "b", "c"];
/// The secret that they share.
pub(crate) const PEERS_TOKEN: &str = "a-secret-of-three-replicas";

/// Replicas `a`, `b` and `c`; each keeps what it knows in a folder of its own.
pub(crate) struct Trio {
    pub(crate) replicas: [Tidegate; 3],
    pub(crate) state: StateFolder,
    places: [Place; 3],
    folder: Folder,
    _ports: Vec<Port>,
}

impl Trio {
    /// Starts all of them, the canary drained, and waits until they are ready.
    pub(crate) fn start() -> Self {
        let mut trio = Self::prepare();
        trio.launch();
        trio
    }

    /// Starts all of them and waits until they are ready.
    pub(crate) fn launch(&mut self) {
        // All of them run before one is waited for: each wants to hear the others first.
        for replica in &mut self.replicas {
            replica.relaunch();
        }
        for replica in &mut self.replicas {
            replica.await_ready();
        }
    }

    /// Nothing runs yet.
    pub(crate) fn prepare() -> Self {
        let state = StateFolder::new();
        state.put("canary-state", "drain");
        let folder = Folder::new("trio");
        let address = loopback(1);
        let ports: Vec<_> = (0..6).map(|_| Port::reserve(address)).collect();
        let at = |number: usize| SocketAddr::new(address, ports[number].number());
        let peers = || (0..3).map(|number| format!("{}=http://{}", SLOTS[number], at(number)));
        let places = [0, 1, 2].map(|number| {
            let file = token_file(&folder, number);
            fs::write(&file, PEERS_TOKEN).expect("the folder takes files");
            let mut membership = vec!["--peers-token-file".to_owned(), file.display().to_string()];
            membership.extend(peers().flat_map(|peer| ["--peer".to_owned(), peer]));
            Place {
                launcher: Vec::new(),
                slot: SLOTS[number].to_owned(),
                agent: at(number + 3),
                http: at(number),
                membership,
            }
        });
        let replicas = [0, 1, 2].map(|number| {
            let data = data(&folder, number);
            fs::create_dir_all(&data).expect("the folder takes folders");
            at_place(&places[number], &state, &data, &[])
        });
        Self {
            replicas,
            state,
            places,
            folder,
            _ports: ports,
        }
    }

    /// The folder in which a replica keeps what it knows.
    pub(crate) fn data(&self, number: usize) -> PathBuf {
        data(&self.folder, number)
    }

    /// Gives a running replica another secret than the others have.
    pub(crate) fn set_token(&mut self, number: usize, token: &str) {
        fs::write(token_file(&self.folder, number), token).expect("the folder takes files");
        self.replicas[number].process().signal(Signal::HUP);
    }

    /// Replaces a replica that has ended by one that is started with `arguments` besides; nothing
    /// waits for it.
    pub(crate) fn replace(&mut self, number: usize, arguments: &[&str]) {
        let data = self.folder.join(&format!("other-{number}"));
        let place = &self.places[number];
        self.replicas[number] = at_place(place, &self.state, &data, arguments);
        self.replicas[number].relaunch();
    }
}

fn at_place(place: &Place, state: &StateFolder, data: &Path, arguments: &[&str]) -> Tidegate {
    let (kv, data) = (state.kv(), data.display().to_string());
    let all = [&["--kv", &kv, "--data-dir", &data], arguments].concat();
    Tidegate::prepare(place.clone(), &all, &[])
}

fn data(folder: &Folder, number: usize) -> PathBuf {
    folder.join(&format!("data-{}", SLOTS[number]))
}

fn token_file(folder: &Folder, number: usize) -> PathBuf {
    folder.join(&format!("peers-token-{}", SLOTS[number]))
}
