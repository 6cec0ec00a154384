//! What changed from one snapshot to the next.

use std::collections::BTreeMap;

use super::{Placed, Snapshot};

/// A directive that was written, changed or taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference<'a> {
    /// What stood there before.
    pub before: Option<&'a Placed>,
    /// What stands there now.
    pub after: Option<&'a Placed>,
}

impl Snapshot {
    /// The directives that are other than in an earlier snapshot, in the order of their paths.
    #[must_use]
    pub fn differences<'a>(&'a self, earlier: &'a Self) -> Vec<Difference<'a>> {
        let mut by_path: BTreeMap<&str, Difference<'a>> = BTreeMap::new();
        for before in earlier.placed() {
            let difference = Difference {
                before: Some(before),
                after: None,
            };
            by_path.insert(&before.path, difference);
        }
        for after in self.placed() {
            let nothing = Difference {
                before: None,
                after: None,
            };
            by_path.entry(&after.path).or_insert(nothing).after = Some(after);
        }
        by_path.retain(|_, difference| {
            let said = |placed: Option<&'a Placed>| placed.map(|placed| &placed.directive);
            said(difference.before) != said(difference.after)
        });
        by_path.into_values().collect()
    }
}

impl Difference<'_> {
    /// The path below the prefix.
    #[must_use]
    pub fn path(&self) -> &str {
        self.after.or(self.before).map_or("", |placed| &placed.path)
    }
}

impl Placed {
    /// What stands there, in one line: the directive as JSON, or why it freezes.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.directive {
            Ok(directive) => directive.to_json(),
            Err(error) => error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::listing::Listing;
    use crate::domain::snapshot::Snapshot;

    #[test]
    fn only_what_differs_is_told() {
        let snapshot = |entries: &[(&str, &str)]| {
            Snapshot::build(&Listing::with_sentinel(1, entries)).unwrap()
        };
        let before = snapshot(&[
            ("canary-state", "drain"),
            ("group-states/ci", "ready"),
            ("server-overrides/web/a", "maint"),
        ]);
        let after = snapshot(&[
            ("canary-state", "40%"),
            ("group-states/ci", "READY"),
            ("zones/b/canary-state", "dran"),
        ]);
        let told: Vec<_> = after
            .differences(&before)
            .iter()
            .map(|d| {
                let text = |placed: Option<&super::Placed>| placed.map(super::Placed::text);
                (d.path().to_owned(), text(d.before), text(d.after))
            })
            .collect();
        let json = |text: &str| Some(text.to_owned());
        let maint = json(r#"{"v":1,"state":"maint"}"#);
        let drain = json(r#"{"v":1,"state":"drain"}"#);
        let forty = json(r#"{"v":1,"state":"ready","weight":40}"#);
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], ("canary-state".to_owned(), drain, forty));
        assert_eq!(told[1], ("server-overrides/web/a".to_owned(), maint, None));
        assert_eq!(
            (told[2].0.as_str(), &told[2].1),
            ("zones/b/canary-state", &None)
        );
        assert!(told[2].2.as_ref().unwrap().contains("\"dran\""));
        assert!(after.differences(&after).is_empty());
    }
}
