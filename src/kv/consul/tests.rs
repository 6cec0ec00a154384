use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_answer_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = entries_below("frontend/gprd/", &bytes);
        let _ = names_below("frontend/gprd/", &bytes);
    }

    #[test]
    fn any_entries_are_read_or_refused(key in ".{0,20}", value in ".{0,9}", below: bool, index: u64) {
        let key = if below { format!("frontend/gprd/{key}") } else { key };
        let pair = serde_json::json!({
            "Key": key, "Value": value, "Flags": 0, "LockIndex": 0,
            "CreateIndex": index, "ModifyIndex": index,
        });
        let body = serde_json::to_vec(&[pair]).unwrap();
        if let Ok(entries) = entries_below("frontend/gprd/", &body) {
            prop_assert!(key.starts_with("frontend/gprd/"));
            prop_assert!(entries.values().all(|entry| entry.modify_index == index));
        }
    }
}
