//! What a login needs: an auth method, and a bearer token to show it.

use std::path::PathBuf;

use super::{Secret, SettingError};

/// The variable that holds a bearer token. It is a variable only: a secret has no place among the
/// flags, which other users of the machine see, nor in the configuration's file.
const BEARER_TOKEN: &str = "TIDEGATE_CONSUL_BEARER_TOKEN";
const METHOD: &str = "consul.login_method";
const BEARER_TOKEN_FILE: &str = "consul.bearer_token_file";

/// What the configuration says about signing in: the two flags of `consul login`. The bearer token
/// of a CI job is no file but a variable, `TIDEGATE_CONSUL_BEARER_TOKEN`: CI systems let the job
/// name the variable that their identity token comes in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginSettings {
    /// Consul's auth method, as `consul login -method`.
    pub method: Option<String>,
    /// What to show it, as `consul login -bearer-token-file`.
    pub bearer_token_file: Option<PathBuf>,
}

/// How to sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Consul's auth method.
    pub method: String,
    /// What to show it.
    pub bearer: Bearer,
}

/// Where the bearer token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    /// The token itself.
    Given(Secret),
    /// A file that holds it, read at each login: identity tokens live for minutes.
    File(PathBuf),
}

impl LoginSettings {
    /// Puts settings and variables together; `None`: nobody signs in. A token beside a login is
    /// refused, not ranked: one of the two is there by mistake, and they have other rights.
    pub(super) fn read(
        &self,
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Login>, SettingError> {
        let error = |variable, reason: String| Err(SettingError { variable, reason });
        let given = get(BEARER_TOKEN);
        let Some(method) = self.method.clone() else {
            return match (&self.bearer_token_file, given) {
                (None, None) => Ok(None),
                (Some(_), _) => error(METHOD, because(BEARER_TOKEN_FILE)),
                (None, Some(_)) => error(METHOD, because(BEARER_TOKEN)),
            };
        };
        let beside = ["CONSUL_HTTP_TOKEN_FILE", "CONSUL_HTTP_TOKEN"];
        if let Some(token) = beside.into_iter().find(|token| get(token).is_some()) {
            return error(
                METHOD,
                format!(
                    "{token} is set as well: unset {token} to sign in with {method:?}, or drop \
                     {METHOD} to use that token"
                ),
            );
        }
        let bearer = match (&self.bearer_token_file, given) {
            (Some(file), None) => Bearer::File(file.clone()),
            (None, Some(token)) => Bearer::Given(Secret::new(token)),
            (Some(_), Some(_)) => {
                return error(
                    BEARER_TOKEN_FILE,
                    format!("{BEARER_TOKEN} is set as well: drop one of the two"),
                );
            }
            (None, None) => {
                return error(
                    METHOD,
                    format!("a login needs a bearer token: {BEARER_TOKEN_FILE} or {BEARER_TOKEN}"),
                );
            }
        };
        Ok(Some(Login { method, bearer }))
    }
}

impl Bearer {
    /// What to mend when the token is no good.
    #[must_use]
    pub const fn setting(&self) -> &'static str {
        match self {
            Self::Given(_) => BEARER_TOKEN,
            Self::File(_) => BEARER_TOKEN_FILE,
        }
    }
}

fn because(other: &str) -> String {
    format!("is needed as well, because {other} is set")
}
