//! Listings of any size with the names of the example fleet.

use bytes::Bytes;
use serde_json::Value;
use tidegate::domain::listing::{Entry, Listing};

/// A sentinel, `canary-state`, and as many server overrides as make `directives` in all. The first
/// rows are the fleet's, further ones have the same names with a number behind.
pub(crate) fn listing(directives: usize) -> Listing {
    let entry = |value: String, modify_index| Entry {
        value: Bytes::from(value),
        modify_index,
    };
    let meta = r#"{"schema":1,"epoch":1790000000,"gen":1}"#.to_owned();
    let mut listing = Listing {
        index: 1,
        entries: [("_meta".to_owned(), entry(meta, 1))].into(),
    };
    let paths = std::iter::once("canary-state".to_owned())
        .chain(servers().map(|server| format!("server-overrides/{server}")));
    for (at, path) in paths.take(directives).enumerate() {
        let modify_index = at as u64 + 2;
        listing
            .entries
            .insert(path, entry(directive(at), modify_index));
        listing.index = modify_index;
    }
    assert_eq!(
        listing.entries.len(),
        directives + 1,
        "each path is its own"
    );
    listing
}

/// Values as the commands write them, in the proportions of a busy day.
pub(crate) fn directive(at: usize) -> String {
    let by =
        r#""by":"ann","reason":"a canary of release 18.3","change":"01K9ZJ5T7P0000000000000000""#;
    let since = r#""since":"2026-11-30T12:00:00Z""#;
    match at % 5 {
        0 => format!(r#"{{"v":1,"state":"drain",{since},{by}}}"#),
        1 => format!(r#"{{"v":1,"state":"ready","weight":40,{since},{by}}}"#),
        2 => format!(
            r#"{{"v":1,"state":"ready","ramp":{{"by":"weight","steps":[5,25,50],"every":"2m"}},{since},{by}}}"#
        ),
        3 => format!(
            r#"{{"v":1,"state":"drain","then":{{"state":"maint","after":"60s"}},{since},{by}}}"#
        ),
        _ => "maint".to_owned(),
    }
}

/// `backend/server` of each backend of the fleet, and the same with numbers without end.
fn servers() -> impl Iterator<Item = String> {
    let fleet: Value = serde_json::from_str(include_str!("../../examples/fleet.json"))
        .expect("the example fleet is JSON");
    let mut rows: Vec<String> = Vec::new();
    for backends in fleet["backends"].as_object().expect("roles").values() {
        for (backend, content) in backends.as_object().expect("backends") {
            for server in content["servers"].as_array().expect("servers") {
                let server = server["name"].as_str().expect("a name");
                rows.push(format!("{backend}/{server}"));
            }
        }
    }
    rows.sort_unstable();
    rows.dedup();
    let numbered = {
        let rows = rows.clone();
        (1..).flat_map(move |number| {
            rows.clone()
                .into_iter()
                .map(move |row| format!("{row}-{number}"))
        })
    };
    rows.into_iter().chain(numbered)
}
