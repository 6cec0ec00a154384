//! The environments that there are, and what people call them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::observe::pairs;
use super::settings::Setting;
use super::values::root;
use crate::domain::name::Name;

/// The most environments, and the most other names of one: a site has a handful.
pub(super) const NAMES_MAX: usize = 64;

/// The environments that there are, by name, and the other names of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Environments(BTreeMap<Name, Vec<Name>>);

impl Environments {
    /// The environment that is called so, by its own name.
    pub(super) fn named(&self, called: &Name) -> Option<&Name> {
        let environment = |(name, others): &(&Name, &Vec<Name>)| {
            *name == called || others.iter().any(|other| other == called)
        };
        self.0.iter().find(environment).map(|(name, _)| name)
    }

    /// Whether it is the own name of one.
    pub(super) fn has(&self, name: &Name) -> bool {
        self.0.contains_key(name)
    }
}

/// `gprd=production prod,pre=`.
pub(super) fn names(_: &Setting, text: &str) -> Result<Environments, String> {
    let mut all = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (name, others) in pairs(text, "gprd=production")? {
        let other = |text: &str| Name::parse(text).map_err(|error| format!("{text:?}: {error}"));
        let others: Vec<_> = others
            .split_whitespace()
            .map(other)
            .collect::<Result<_, _>>()?;
        for called in std::iter::once(&name).chain(&others) {
            if !taken.insert(called.clone()) {
                return Err(format!("{called} is named twice"));
            }
        }
        if others.len() > NAMES_MAX {
            let count = others.len();
            return Err(format!(
                "{name} has {count} other names; {NAMES_MAX} are allowed"
            ));
        }
        all.insert(name, others);
    }
    if all.len() > NAMES_MAX {
        return Err(format!("{} given; {NAMES_MAX} are allowed", all.len()));
    }
    Ok(Environments(all))
}

/// `pre=infra/pre`.
pub(super) fn roots(setting: &Setting, text: &str) -> Result<BTreeMap<Name, String>, String> {
    let mut all = BTreeMap::new();
    for (name, path) in pairs(text, "pre=infra/pre")? {
        let path = root(setting, path).map_err(|error| format!("{path:?}: {error}"))?;
        if all.insert(name.clone(), path).is_some() {
            return Err(format!("{name} is named twice"));
        }
    }
    Ok(all)
}

/// `known are gprd (production), pre`.
impl fmt::Display for Environments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("known are ")?;
        for (at, (name, others)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
            if !others.is_empty() {
                let others: Vec<_> = others.iter().map(Name::as_str).collect();
                write!(f, " ({})", others.join(", "))?;
            }
        }
        Ok(())
    }
}
