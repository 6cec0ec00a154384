//! What every store demands of a request, checked before anything is sent or written.

use std::collections::BTreeSet;

use super::{Expect, KvError, OPERATIONS_MAX, Operation, VALUE_BYTES_MAX};

/// The longest key, in bytes. Consul has no limit of its own; a URL must still carry the key.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Checks a full key. Refused are keys that a URL or a folder would read as another key: empty
/// ones, those with an empty segment (`/a`, `a//b`: Consul answers 301, and whoever follows it
/// writes nothing), `.` and `..` as a segment, and control characters. A closing slash is a
/// folder marker, which not every store can hold, and passes.
///
/// # Errors
/// [`KvError::BadRequest`] with the key and the reason.
pub fn check_key(key: &str) -> Result<(), KvError> {
    let refuse = |why: &str| Err(KvError::BadRequest(format!("the key {key:?} {why}")));
    if key.is_empty() {
        return refuse("is empty");
    }
    if key.len() > KEY_BYTES_MAX {
        let bytes = key.len();
        return Err(KvError::BadRequest(format!(
            "a key of {bytes} bytes is longer than {KEY_BYTES_MAX}"
        )));
    }
    if key.chars().any(char::is_control) {
        return refuse("holds a control character");
    }
    let body = key.strip_suffix('/').unwrap_or(key);
    for segment in body.split('/') {
        match segment {
            "" => return refuse("has an empty segment (two slashes, or one at its start)"),
            "." | ".." => return refuse("has \".\" or \"..\" as a segment"),
            _ => {}
        }
    }
    Ok(())
}

/// Checks the operations of one transaction: at least one, none on a key that another is on, at
/// most [`OPERATIONS_MAX`] (a delete at an index counts as two: Consul needs a check and a
/// delete for it), values of at most [`VALUE_BYTES_MAX`] bytes.
///
/// # Errors
/// [`KvError::BadRequest`] with the key or the count.
pub fn check_operations(operations: &[Operation]) -> Result<(), KvError> {
    if operations.is_empty() {
        return Err(KvError::BadRequest(
            "a transaction without any operation".to_owned(),
        ));
    }
    let count: usize = operations.iter().map(cost).sum();
    if count > OPERATIONS_MAX {
        return Err(KvError::BadRequest(format!(
            "{count} operations in one transaction; at most {OPERATIONS_MAX} are possible \
             (a delete at an index counts as two)"
        )));
    }
    let mut seen = BTreeSet::new();
    for operation in operations {
        check_key(operation.key())?;
        check_value(operation)?;
        if !seen.insert(operation.key()) {
            return Err(KvError::BadRequest(format!(
                "the key {:?} stands twice in one transaction",
                operation.key()
            )));
        }
    }
    Ok(())
}

fn check_value(operation: &Operation) -> Result<(), KvError> {
    match operation {
        Operation::Set { key, value, .. } if value.len() > VALUE_BYTES_MAX => {
            Err(KvError::BadRequest(format!(
                "the value of {key:?} has {} bytes; at most {VALUE_BYTES_MAX} are possible",
                value.len()
            )))
        }
        Operation::Set { .. } | Operation::Delete { .. } => Ok(()),
    }
}

fn cost(operation: &Operation) -> usize {
    match operation {
        Operation::Set { .. } => 1,
        Operation::Delete { expect, .. } => match expect {
            Expect::Anything | Expect::Missing => 1,
            Expect::Index(_) => 2,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_would_become_another_key_is_refused() {
        for good in ["a", "a/b", "a/", "a b%ü?#", "a/.b", "a/..b", "...", "a\\b"] {
            assert_eq!(check_key(good), Ok(()), "{good:?}");
        }
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        for bad in [
            "", "/", "/a", "a//b", "a//", ".", "..", "a/./b", "a/..", "a/../", "a\nb", "a\tb",
            "\u{7f}", &long,
        ] {
            assert!(
                matches!(check_key(bad), Err(KvError::BadRequest(_))),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_delete_at_an_index_counts_as_two_operations() {
        let deletes = |count: usize, expect| -> Vec<_> {
            (0..count)
                .map(|n| Operation::Delete {
                    key: format!("k{n}"),
                    expect,
                })
                .collect()
        };
        for (count, expect, ok) in [
            (0, Expect::Anything, false),
            (64, Expect::Anything, true),
            (65, Expect::Anything, false),
            (64, Expect::Missing, true),
            (32, Expect::Index(7), true),
            (33, Expect::Index(7), false),
        ] {
            let checked = check_operations(&deletes(count, expect));
            assert_eq!(checked.is_ok(), ok, "{count} {expect:?}: {checked:?}");
        }
    }
}
