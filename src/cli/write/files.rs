//! `HAProxy`'s files as a part of the topology.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::cli::lint::LOCAL_PEER;
use crate::cli::{Exit, Failure};
use crate::domain::haproxy::lint::{Evidence, Readings, Scene};
use crate::domain::haproxy::reading::Setting;
use crate::domain::haproxy::shape::Shape;
use crate::domain::name::Name;
use crate::domain::topology::Topology;
use crate::haproxy::files;

/// The files of nodes.
#[derive(Debug, Args)]
pub(in crate::cli) struct FilesArgs {
    /// HAProxy's files of a node, as `haproxy -f` takes them: the rails count the servers that
    /// they say it has. More than once for more files, and for more nodes.
    #[arg(long, value_name = "NODE=PATH", value_parser = of_node)]
    haproxy_files: Vec<(Name, PathBuf)>,
}

impl FilesArgs {
    /// Adds the nodes to what the settings say.
    pub(in crate::cli) fn add_to(&self, mut topology: Topology) -> Result<Topology, Failure> {
        let mut nodes: BTreeMap<&Name, Vec<PathBuf>> = BTreeMap::new();
        for (node, path) in &self.haproxy_files {
            nodes.entry(node).or_default().push(path.clone());
        }
        for (node, paths) in nodes {
            let failed = |why: String| Failure::new(Exit::Failed, format!("{node}: {why}"));
            let read = files::read(&paths).map_err(|error| failed(error.to_string()))?;
            let setting = Setting {
                environment: [(LOCAL_PEER.to_owned(), node.to_string())].into(),
                ..Setting::default()
            };
            let readings =
                Readings::of(&read, &setting).map_err(|error| failed(error.to_string()))?;
            let [(reading, configuration)] = &readings.all[..] else {
                let why = "its files hold a condition that cannot be judged here";
                return Err(failed(why.to_owned()));
            };
            if let Some(fault) = reading.faults.iter().chain(&configuration.faults).next() {
                return Err(failed(format!(
                    "{}: {}",
                    reading.place(fault.line),
                    fault.what
                )));
            }
            let evidence = Evidence::default();
            let scene = Scene::new(reading, configuration, &evidence);
            let shape = Shape::of(&scene);
            topology = shape.add_to(topology, node.clone(), files::changed(&read));
        }
        Ok(topology)
    }
}

fn of_node(text: &str) -> Result<(Name, PathBuf), String> {
    match text.split_once('=') {
        Some((node, path)) if !path.is_empty() => {
            let node = Name::parse(node).map_err(|error| error.to_string())?;
            Ok((node, PathBuf::from(path)))
        }
        Some(_) | None => Err("write NODE=PATH".to_owned()),
    }
}
