//! The simulated Consul: one table, its history, and what each reader may see of it.

use std::collections::{BTreeMap, HashMap};

use tidegate::domain::listing::{Entry, Listing};
use tidegate::domain::sentinel::Generation;
use tokio::time::Instant;

/// Keys that a narrowed token does not see.
pub(super) const NARROWED: [&str; 2] = ["group-states/a", "group-states/b"];

/// What a token may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    Full,
    /// Not [`NARROWED`].
    Subset,
    None,
}

/// One state of the table.
#[derive(Debug, Clone)]
pub(super) struct Version {
    /// Its place in what happened. A restore gives an old version a new place.
    pub(super) seq: u64,
    pub(super) generation: Option<Generation>,
    pub(super) index: u64,
    pub(super) table_index: u64,
    pub(super) entries: BTreeMap<String, Entry>,
    /// When another one took its place.
    pub(super) replaced: Option<Instant>,
}

/// The table with its history.
#[derive(Debug)]
pub(super) struct Consul {
    pub(super) up: bool,
    /// It accepts and never answers.
    pub(super) hangs: bool,
    raft: u64,
    seq: u64,
    pub(super) versions: Vec<Version>,
    /// Which version a listing of this epoch and index is.
    places: HashMap<(u64, u64), usize>,
    pub(super) current: usize,
}

impl Version {
    /// What a reader sees.
    pub(super) fn view(&self, rights: Rights) -> Listing {
        let mut entries = self.entries.clone();
        match rights {
            Rights::Full => {}
            Rights::Subset => entries.retain(|path, _| !NARROWED.contains(&path.as_str())),
            Rights::None => entries.clear(),
        }
        Listing {
            index: self.index,
            entries,
        }
    }
}

impl Consul {
    pub(super) fn new() -> Self {
        let mut consul = Self {
            up: true,
            hangs: false,
            raft: 10,
            seq: 0,
            versions: Vec::new(),
            places: HashMap::new(),
            current: 0,
        };
        let generation = Generation {
            epoch: 1_000,
            r#gen: 1,
        };
        let mut entries = BTreeMap::new();
        for (path, index) in [("group-states/a", 5), ("group-states/b", 6)] {
            entries.insert(path.to_owned(), drain(index));
        }
        entries.insert("_meta".to_owned(), meta(generation, 10));
        consul.push(Some(generation), entries, 10);
        consul
    }

    pub(super) fn now(&self) -> &Version {
        &self.versions[self.current]
    }

    /// The version that a listing of this generation and index came from: the last one that looks
    /// the same to whoever sees these rights.
    pub(super) fn of(&self, generation: Generation, index: u64, rights: Rights) -> &Version {
        let version = &self.versions[self.places[&(generation.epoch, index)]];
        let seen = version.view(rights).entries;
        let mut versions = self.versions.iter();
        let same = versions
            .by_ref()
            .filter(|other| other.view(rights).entries == seen);
        same.max_by_key(|other| other.seq).unwrap_or(version)
    }

    /// A transaction of this program's: the generation grows.
    pub(super) fn transact(&mut self, path: &str) -> bool {
        let Some(generation) = self.now().generation.map(Generation::next) else {
            return false;
        };
        self.raft += 1;
        let mut entries = self.now().entries.clone();
        entries.insert("_meta".to_owned(), meta(generation, self.raft));
        entries.insert(path.to_owned(), drain(self.raft));
        self.push(Some(generation), entries, self.raft);
        true
    }

    /// A bare write of one key, by hand or by a zombie.
    pub(super) fn put(&mut self, path: &str) {
        self.raft += 1;
        let mut entries = self.now().entries.clone();
        entries.insert(path.to_owned(), drain(self.raft));
        self.push(self.now().generation, entries, self.raft);
    }

    pub(super) fn delete(&mut self, pick: usize) -> bool {
        let mut entries = self.now().entries.clone();
        let paths: Vec<_> = entries
            .keys()
            .filter(|path| *path != "_meta")
            .cloned()
            .collect();
        if paths.is_empty() {
            return false;
        }
        entries.remove(&paths[pick % paths.len()]);
        self.raft += 1;
        self.push(self.now().generation, entries, self.raft);
        true
    }

    /// A write elsewhere in the table.
    pub(super) fn write_outside(&mut self) {
        self.raft += 1;
        self.versions[self.current].table_index = self.raft;
    }

    /// Puts one of the last versions of this epoch back, or the very last. `false`: there is none.
    pub(super) fn restore(&mut self, pick: Option<usize>) -> bool {
        let now = self.now();
        let epoch = now.generation.map(|generation| generation.epoch);
        let old: Vec<_> = (0..self.versions.len())
            .filter(|place| *place != self.current)
            .filter(|place| {
                let version = &self.versions[*place];
                version.generation.map(|generation| generation.epoch) == epoch && epoch.is_some()
            })
            .collect();
        let old = &old[old.len().saturating_sub(6)..];
        if old.is_empty() {
            return false;
        }
        let place = old[pick.unwrap_or(old.len() - 1) % old.len()];
        if self.versions[place].entries == now.entries {
            return false;
        }
        self.seq += 1;
        self.versions[self.current].replaced = Some(Instant::now());
        let version = &mut self.versions[place];
        version.seq = self.seq;
        version.table_index = version.index;
        version.replaced = None;
        self.current = place;
        true
    }

    /// A write of the sentinel that was under way for long: the generation goes back.
    pub(super) fn zombie_sentinel(&mut self) -> bool {
        let Some(generation) = self.now().generation.filter(|g| g.r#gen > 1) else {
            return false;
        };
        let older = Generation {
            r#gen: generation.r#gen - 1,
            ..generation
        };
        self.raft += 1;
        let mut entries = self.now().entries.clone();
        entries.insert("_meta".to_owned(), meta(older, self.raft));
        self.push(Some(older), entries, self.raft);
        true
    }

    pub(super) fn wipe(&mut self) {
        self.raft = 1;
        self.push(None, BTreeMap::new(), 1);
    }

    /// `init` or `accept`: an epoch above all that anybody knows.
    pub(super) fn accept(&mut self) {
        let epochs = self
            .versions
            .iter()
            .filter_map(|version| version.generation);
        let epoch = epochs.map(|generation| generation.epoch).max().unwrap_or(0) + 1;
        let r#gen = self
            .now()
            .generation
            .map_or(1, |generation| generation.r#gen + 1);
        let generation = Generation { epoch, r#gen };
        self.raft += 1;
        let mut entries = self.now().entries.clone();
        entries.insert("_meta".to_owned(), meta(generation, self.raft));
        self.push(Some(generation), entries, self.raft);
    }

    fn push(
        &mut self,
        generation: Option<Generation>,
        entries: BTreeMap<String, Entry>,
        index: u64,
    ) {
        if let Some(before) = self.versions.get_mut(self.current) {
            before.replaced = Some(Instant::now());
        }
        self.seq += 1;
        self.current = self.versions.len();
        let epoch = generation.map_or(0, |generation| generation.epoch);
        self.places.insert((epoch, index), self.current);
        self.versions.push(Version {
            seq: self.seq,
            generation,
            index,
            table_index: index,
            entries,
            replaced: None,
        });
    }
}

fn drain(modify_index: u64) -> Entry {
    Entry {
        value: "drain".into(),
        modify_index,
    }
}

fn meta(generation: Generation, modify_index: u64) -> Entry {
    Entry {
        value: generation
            .to_json("2026-11-30T10:00:00Z".parse().expect("a time"), "sim", None)
            .into(),
        modify_index,
    }
}
