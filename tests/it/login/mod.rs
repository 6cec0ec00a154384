//! Signing in with Consul's JWT login, against a real Consul and an issuer of the test's own.

use serde_json::json;

use crate::harness::consul::Consul;
use crate::harness::folder::Folder;
use crate::harness::issuer::Issuer;
use crate::harness::process::Output;
use crate::harness::state_folder::META;
use crate::harness::tidegate::tidegate;

mod commands;
mod refusals;
pub(crate) mod service;
mod store;

const METHOD: &str = "ci";
/// May write what the commands write.
const RELEASE: &str = "release";
/// May only read.
const READER: &str = "reader";

/// A Consul with an auth method, an environment `gprd` whose canary is drained, and a file for
/// the bearer token.
pub(crate) struct Scene {
    pub(crate) consul: Consul,
    issuer: Issuer,
    folder: Folder,
}

impl Scene {
    fn new() -> Self {
        Self::with_ttl("10m")
    }

    pub(crate) fn with_ttl(ttl: &str) -> Self {
        let (consul, issuer) = (Consul::dev_with_acl(), Issuer::new());
        consul.trust(METHOD, &issuer, ttl);
        let write = r#"key_prefix "frontend/gprd/" { policy = "write" }
                       key_prefix "frontend-history/gprd/" { policy = "write" }"#;
        consul.bind(METHOD, RELEASE, write);
        let read = r#"key_prefix "frontend/gprd/" { policy = "list" }"#;
        consul.bind(METHOD, READER, read);
        consul.kv_put("frontend/gprd/_meta", META);
        consul.kv_put("frontend/gprd/canary-state", "drain");
        let scene = Self {
            consul,
            issuer,
            folder: Folder::new("login"),
        };
        scene.show(&scene.issuer.token(RELEASE));
        scene
    }

    /// Puts a bearer token into the file.
    fn show(&self, bearer: &str) {
        self.folder.write("bearer", &format!("{bearer}\n"));
    }

    /// Where Consul is, and how to sign in with the file.
    fn variables(&self) -> Vec<(String, String)> {
        let file = self.folder.join("bearer").display().to_string();
        self.variables_and(&[("TIDEGATE_CONSUL_BEARER_TOKEN_FILE", &file)])
    }

    /// The same with other variables instead of the file's.
    fn variables_and(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let url = self.consul.url();
        let own = [
            ("CONSUL_HTTP_ADDR", url.as_str()),
            ("TIDEGATE_CONSUL_LOGIN_METHOD", METHOD),
        ];
        let all = own.iter().chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// Runs a command on `gprd`, signed in with the file.
    fn run(&self, arguments: &[&str]) -> Output {
        run(arguments, &self.variables())
    }

    /// The state that the canary's directive asks for.
    fn canary(&self) -> String {
        let value = self.consul.kv_get("frontend/gprd/canary-state");
        let text = String::from_utf8(value.expect("it is there")).expect("it is text");
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(directive) => directive["state"].as_str().unwrap_or_default().to_owned(),
            Err(_) => text,
        }
    }

    /// Nothing that a login gave is left in Consul.
    fn expect_signed_out(&self) {
        assert_eq!(self.consul.login_tokens().len(), 0, "tokens were left");
    }
}

fn run(arguments: &[&str], variables: &[(String, String)]) -> Output {
    tidegate(&[arguments, &["--env", "gprd"]].concat(), variables)
}

/// The claims that a token is valid with, and one of another kind.
fn other(claim: &str) -> serde_json::Value {
    json!({ claim: "somebody else" })
}
