//! What the tests ask of Consul beside Tidegate: keys, snapshots, policies, tokens.

use serde_json::{Value, json};

use super::consul::{Consul, expect_ok};
use super::wait::{PATIENCE, check, eventually};

impl Consul {
    /// Writes one key unconditionally.
    pub(crate) fn kv_put(&self, key: &str, value: impl AsRef<[u8]>) {
        let answer = self.call("PUT", &kv_path(key), value.as_ref());
        expect_ok(&format!("put {key}"), &answer);
        assert_eq!(answer.text().trim(), "true", "put {key}");
    }

    /// The value of one key, read consistently; `None` when it does not exist.
    pub(crate) fn kv_get(&self, key: &str) -> Option<Vec<u8>> {
        let answer = self.call("GET", &format!("{}?raw&consistent", kv_path(key)), b"");
        if answer.status == 404 {
            return None;
        }
        expect_ok(&format!("get {key}"), &answer);
        Some(answer.body)
    }

    /// All keys that begin with `prefix`, in order.
    pub(crate) fn kv_keys(&self, prefix: &str) -> Vec<String> {
        let answer = self.call("GET", &format!("{}?keys&consistent", kv_path(prefix)), b"");
        if answer.status == 404 {
            return Vec::new();
        }
        expect_ok(&format!("keys {prefix}"), &answer);
        serde_json::from_slice(&answer.body).expect("Consul lists keys as JSON strings")
    }

    /// Deletes one key.
    pub(crate) fn kv_delete(&self, key: &str) {
        expect_ok(
            &format!("delete {key}"),
            &self.call("DELETE", &kv_path(key), b""),
        );
    }

    /// Deletes every key that begins with `prefix`, as `consul kv delete -recurse` does.
    pub(crate) fn kv_delete_recurse(&self, prefix: &str) {
        let path = format!("{}?recurse", kv_path(prefix));
        expect_ok(
            &format!("delete -recurse {prefix}"),
            &self.call("DELETE", &path, b""),
        );
    }

    /// The whole state of the servers.
    pub(crate) fn snapshot_save(&self) -> Vec<u8> {
        let answer = self.call("GET", "/v1/snapshot", b"");
        expect_ok("save a snapshot", &answer);
        answer.body
    }

    /// Puts an earlier state back.
    pub(crate) fn snapshot_restore(&self, snapshot: &[u8]) {
        expect_ok(
            "restore a snapshot",
            &self.call("PUT", "/v1/snapshot", snapshot),
        );
    }

    /// Creates a policy, or gives an existing one of that name new rules.
    pub(crate) fn policy(&self, name: &str, rules: &str) {
        let path = format!("/v1/acl/policy/name/{name}");
        let known = self.call("GET", &path, b"");
        let id = (known.status == 200).then(|| json_of(&known.body)["ID"].clone());
        let (path, body) = match id {
            Some(id) => (
                format!("/v1/acl/policy/{}", id.as_str().expect("an id is a string")),
                json!({ "ID": id, "Name": name, "Rules": rules }),
            ),
            None => (
                "/v1/acl/policy".to_owned(),
                json!({ "Name": name, "Rules": rules }),
            ),
        };
        self.acl_write(&path, &body);
    }

    /// Creates a token with the rights of these policies and gives its secret.
    pub(crate) fn token_for(&self, policies: &[&str]) -> String {
        let policies: Vec<_> = policies
            .iter()
            .map(|name| json!({ "Name": name }))
            .collect();
        let token = self.acl_write("/v1/acl/token", &json!({ "Policies": policies }));
        token["SecretID"]
            .as_str()
            .expect("a new token has a secret")
            .to_owned()
    }

    /// The same with a secret that the caller chooses.
    pub(crate) fn token_with_secret(&self, secret: &str, policies: &[&str]) {
        let policies: Vec<_> = policies
            .iter()
            .map(|name| json!({ "Name": name }))
            .collect();
        let token = json!({ "SecretID": secret, "Policies": policies });
        self.acl_write("/v1/acl/token", &token);
    }

    /// Deletes the token with that secret.
    pub(crate) fn delete_token(&self, secret: &str) {
        let own = self.call_as(Some(secret), "GET", "/v1/acl/token/self", b"");
        expect_ok("read a token", &own);
        let accessor = json_of(&own.body)["AccessorID"].clone();
        let path = format!(
            "/v1/acl/token/{}",
            accessor.as_str().expect("an id is a string")
        );
        expect_ok("delete a token", &self.call("DELETE", &path, b""));
    }

    /// Just started servers refuse for a moment ("legacy mode"), so this is asked repeatedly.
    pub(crate) fn acl_write(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        eventually(&format!("PUT {path}"), PATIENCE, || {
            let answer = self.call("PUT", path, body.as_bytes());
            check(answer.status == 200, || {
                format!("{} {}", answer.status, answer.text())
            })?;
            Ok(json_of(&answer.body))
        })
    }
}

/// The key's path, with what HTTP would read otherwise escaped.
fn kv_path(key: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"/-._~:".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    format!("/v1/kv/{}", key.bytes().map(escape).collect::<String>())
}

pub(crate) fn json_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("Consul answers in JSON")
}
