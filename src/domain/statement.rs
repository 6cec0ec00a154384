//! What a replica answers a peer beside its word, and who says so.
//!
//! ```text
//! {"from":{"prefix":"frontend/gprd/","schema":1,"slot":"b","digest":"..","version":".."},"says":..}
//! ```

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::word::{Identity, WireIdentity};

/// Something that a replica says, in JSON, and its identity: what a stranger says is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Who speaks.
    pub from: Identity,
    /// What it says: JSON that is not looked into yet.
    pub says: String,
}

/// Why bytes are no statement of a replica.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not understood: {0}")]
pub struct StatementError(String);

/// Other fields are let pass: a later version may add one.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    from: WireIdentity,
    #[serde(borrow)]
    says: &'a RawValue,
}

impl Statement {
    /// Says this.
    #[must_use]
    pub fn new(from: Identity, says: &impl Serialize) -> Self {
        let says = serde_json::to_string(says);
        Self {
            from,
            says: says.expect("strings and numbers always serialise"),
        }
    }

    /// The statement as JSON.
    ///
    /// # Panics
    /// When what it says is no JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let wire = Wire {
            from: (&self.from).into(),
            says: serde_json::from_str(&self.says).expect("who speaks writes JSON"),
        };
        serde_json::to_string(&wire).expect("strings and numbers always serialise")
    }

    /// Reads a statement.
    ///
    /// # Errors
    /// When it is none. Nothing of such bytes is used.
    pub fn parse(bytes: &[u8]) -> Result<Self, StatementError> {
        let wire: Wire<'_> =
            serde_json::from_slice(bytes).map_err(|error| StatementError(error.to_string()))?;
        Ok(Self {
            from: wire.from.read().map_err(StatementError)?,
            says: wire.says.get().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::key::Prefix;
    use crate::domain::name::Name;

    fn statement(says: &str) -> Statement {
        let from = Identity {
            prefix: Prefix::new("front/end", "gprd").unwrap(),
            schema: 1,
            slot: Name::parse("b").unwrap(),
            digest: u64::MAX,
            version: "0.1.0".to_owned(),
        };
        let says = says.to_owned();
        Statement { from, says }
    }

    #[test]
    fn a_statement_reads_back_and_a_later_one_too() {
        for says in ["null", "{\"rows\":2}", "[\"\\u0000 }\", {}]"] {
            let statement = statement(says);
            let json = statement.to_json();
            assert_eq!(Statement::parse(json.as_bytes()), Ok(statement.clone()));
            let later = json.replacen('{', "{\"more\":[1],", 1);
            assert_eq!(Statement::parse(later.as_bytes()), Ok(statement));
        }
    }

    #[test]
    fn what_is_no_statement_says_why() {
        let json = statement("{}").to_json();
        for (part, instead, text) in [
            ("\"slot\":\"b\"", "\"slot\":\"b c\"", "slot: "),
            ("front/end/gprd/", "gprd/", "prefix: "),
            ("ffff", "xxxx", "digest: "),
            ("\"says\":{}", "\"say\":{}", "missing field `says`"),
        ] {
            assert!(json.contains(part), "{json}");
            let error = Statement::parse(json.replacen(part, instead, 1).as_bytes());
            let error = error.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Statement::parse(&bytes);
        }
    }
}
