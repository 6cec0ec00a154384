//! Who issues identity tokens (JWT) to jobs and instances, and the auth method that trusts it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tidegate::clock;

use super::consul::{Consul, expect_ok};
use super::consul_calls::json_of;

pub(crate) const ISSUER: &str = "https://ci.example";
pub(crate) const AUDIENCE: &str = "consul.example";
/// How a P-256 public key in DER begins; the 65 bytes of the point follow (RFC 5480).
const P256_DER: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// An issuer with a key pair of its own.
pub(crate) struct Issuer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Issuer {
    pub(crate) fn new() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document =
            EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("the machine has randomness");
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random)
            .expect("a key just made is well-formed");
        Self { key, random }
    }

    /// A token for a subject, valid for the next five minutes.
    pub(crate) fn token(&self, subject: &str) -> String {
        self.token_with(subject, &json!({}))
    }

    /// The same that was valid until an hour ago.
    pub(crate) fn expired(&self, subject: &str) -> String {
        let now = clock::now().as_second();
        self.token_with(subject, &json!({ "iat": now - 7_200, "exp": now - 3_600 }))
    }

    /// The same with other claims beside or instead of the usual ones.
    pub(crate) fn token_with(&self, subject: &str, claims: &Value) -> String {
        let now = clock::now().as_second();
        let mut all = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 300,
        });
        super::consul::merge(&mut all, claims);
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "ES256" })), part(&all));
        let signature = self.key.sign(&self.random, signed.as_bytes());
        let signature = signature.expect("the machine has randomness");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// What its tokens are checked by.
    pub(crate) fn public_pem(&self) -> String {
        let der = [&P256_DER[..], self.key.public_key().as_ref()].concat();
        let der = STANDARD.encode(der);
        format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
    }
}

impl Consul {
    /// Has an auth method trust an issuer. `ttl`: how long the tokens of its logins live.
    pub(crate) fn trust(&self, method: &str, issuer: &Issuer, ttl: &str) {
        let config = json!({
            "JWTValidationPubKeys": [issuer.public_pem()],
            "JWTSupportedAlgs": ["ES256"],
            "BoundIssuer": ISSUER,
            "BoundAudiences": [AUDIENCE],
            "ClaimMappings": { "sub": "sub" },
        });
        let method = json!({
            "Name": method, "Type": "jwt", "MaxTokenTTL": ttl, "Config": config,
        });
        self.acl_write("/v1/acl/auth-method", &method);
    }

    /// Gives the logins of a subject a role with these rules.
    pub(crate) fn bind(&self, method: &str, subject: &str, rules: &str) {
        self.policy(subject, rules);
        let role = json!({ "Name": subject, "Policies": [{ "Name": subject }] });
        self.acl_write("/v1/acl/role", &role);
        let binding = json!({
            "AuthMethod": method, "BindType": "role", "BindName": subject,
            "Selector": format!("value.sub == {subject:?}"),
        });
        self.acl_write("/v1/acl/binding-rule", &binding);
    }

    /// The secrets of all tokens that logins left.
    pub(crate) fn login_tokens(&self) -> Vec<String> {
        let answer = self.call("GET", "/v1/acl/tokens", b"");
        expect_ok("list tokens", &answer);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = json_of(&answer.body)
            .as_array()
            .cloned()
            .unwrap_or_default();
        let of_logins = all.iter().filter(|token| token["AuthMethod"].is_string());
        let accessors = of_logins.map(|token| text(&token["AccessorID"]));
        let read = |accessor| {
            let answer = self.call("GET", &format!("/v1/acl/token/{accessor}"), b"");
            // Gone since it was listed.
            (answer.status == 200).then(|| text(&json_of(&answer.body)["SecretID"]))
        };
        accessors.filter_map(read).collect()
    }
}
