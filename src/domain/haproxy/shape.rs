//! The rows of a node, as its files have them: what the rails reckon with.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::lint::Scene;
use crate::domain::name::{Name, ServerId};
use crate::domain::request::Request;
use crate::domain::settings::{Backup, Row};
use crate::domain::topology::{Node, Placement, Topology};

/// One node, as its files have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its zone and its rows.
    pub node: Node,
    /// What each row is.
    pub rows: BTreeMap<ServerId, Row>,
}

impl Shape {
    /// Every server of the files whose name Tidegate can hold; a template is left out. Its zone is
    /// the one that the requests name; no file says its role.
    #[must_use]
    pub fn of(scene: &Scene<'_>) -> Self {
        let (mut placed, mut rows) = (BTreeMap::new(), BTreeMap::new());
        let mut zone = None;
        for row in scene.rows.iter().filter(|row| !row.server.is_template) {
            let Ok(id) = ServerId::parse(&row.id()) else {
                continue;
            };
            let placement = Placement {
                active: !row.server.is_backup(),
                weight: row.options().weight(),
            };
            let request = row.request;
            let groups = request.iter().flat_map(Request::groups);
            let groups = groups.filter_map(|group| Name::parse(group).ok()).collect();
            zone = zone.or_else(|| Name::parse(request?.zone?).ok());
            let known = Row {
                groups,
                weight: placement.weight,
                backup: if placement.active {
                    Backup::Never
                } else {
                    Backup::Always
                },
                agent: request.is_some_and(|request| !request.shadow),
                ..Row::default()
            };
            placed.insert(id.clone(), placement);
            rows.insert(id, known);
        }
        let node = Node {
            zone,
            role: None,
            rows: Some(Arc::new(placed)),
            ..Node::default()
        };
        Self { node, rows }
    }

    /// Adds it to what is known, as of when the files were changed. A zone that they do not say,
    /// and its role, stay.
    #[must_use]
    pub fn add_to(mut self, topology: Topology, name: Name, as_of: Option<Timestamp>) -> Topology {
        if let Some(known) = topology.nodes().get(&name) {
            self.node.zone = self.node.zone.or_else(|| known.zone.clone());
            self.node.role.clone_from(&known.role);
        }
        topology.with_node(name, self.node, &self.rows, as_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::haproxy::configuration::Configuration;
    use crate::domain::haproxy::lint::Evidence;
    use crate::domain::haproxy::reading::{File, Reading, Setting};

    #[test]
    fn the_rails_see_what_the_files_say() {
        let text = "global\n setenv ZONE b\nbackend web\n\
            server a 1.1.1.1 weight 100 agent-check agent-send \"web/a zone=$ZONE base=100\\n\"\n\
            server b 1.1.1.1 weight 50 backup\n\
            server c 1.1.1.1 agent-check agent-send \"web/c canary ci mode=shadow\\n\"\n\
            server-template t 3 x.y:80\n";
        let files = [File {
            name: "a".to_owned(),
            bytes: text.as_bytes().to_vec(),
        }];
        let reading = Reading::of(&files, &Setting::default()).unwrap();
        let configuration = Configuration::of(&reading);
        let shape = Shape::of(&Scene::new(&reading, &configuration, &Evidence::default()));
        let name = Name::parse("lb-1").unwrap();
        let topology = shape.add_to(Topology::default(), name, None);
        let node = &topology.nodes()["lb-1"];
        assert_eq!(node.zone.as_ref().map(Name::as_str), Some("b"));
        let placement = |id: &str| topology.placement(node, &ServerId::parse(id).unwrap());
        assert_eq!(
            placement("web/a"),
            Some(Placement {
                active: true,
                weight: 100
            })
        );
        assert_eq!(
            placement("web/b"),
            Some(Placement {
                active: false,
                weight: 50
            })
        );
        assert_eq!(placement("web/t"), None);
        let row = |id: &str| &topology.rows()[id];
        assert!(row("web/a").agent && !row("web/b").agent && !row("web/c").agent);
        assert!(row("web/c").is_of("canary") && row("web/c").is_of("ci"));
        assert_eq!(topology.to_string(), "HAProxy files");
    }
}
