//! What changed from one snapshot to the next.

use std::cmp::Ordering;
use std::sync::Arc;

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
        let mut differences = Vec::new();
        let mut olds = earlier.by_path.iter().peekable();
        let mut news = self.by_path.iter().peekable();
        loop {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => return differences,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.path.cmp(&new.path),
            };
            let before = order.is_le().then(|| olds.next()).flatten();
            let after = order.is_ge().then(|| news.next()).flatten();
            let same = match (before, after) {
                (Some(before), Some(after)) => {
                    Arc::ptr_eq(before, after) || before.directive == after.directive
                }
                (None, _) | (_, None) => false,
            };
            if !same {
                let (before, after) = (before.map(|it| &**it), after.map(|it| &**it));
                differences.push(Difference { before, after });
            }
        }
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
