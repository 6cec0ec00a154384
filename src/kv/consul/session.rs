//! The token of a login over its life: obtained before the first request, replaced when Consul
//! knows it no longer, given back at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use reqwest::header::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::answer::Answer;
use super::environment::{Login, SettingErrors};
use super::login::{self, Granted};
use super::transport::Connection;
use crate::kv::KvError;
use crate::kv::expiries::{Credential, Expiries};

/// The least time between two tries to sign in. Readings come ten times as often.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest: between logins whose tokens Consul then does not know. Each leaves one behind.
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// One login, and the token that it last gave.
#[derive(Debug)]
pub(super) struct Session {
    login: Login,
    /// For the answer of one login or logout.
    limit: Duration,
    /// Told when each token ends.
    expiries: Arc<Expiries>,
    token: ArcSwapOption<Token>,
    /// One login at a time.
    gate: Mutex<Gate>,
}

/// A token in use.
#[derive(Debug)]
pub(super) struct Token {
    granted: Granted,
    /// Whether Consul has ever taken it.
    taken: AtomicBool,
}

/// What decides whether to sign in now.
#[derive(Debug, Default)]
struct Gate {
    last: Option<Instant>,
    /// Why the last login failed; `None`: it did not.
    refusal: Option<KvError>,
    /// Logins in a row whose tokens were never taken.
    fruitless: u32,
    /// Signed out for good.
    closed: bool,
}

/// Why the old token and certificates stay in use.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Something is wrong with the files.
    #[error(transparent)]
    Settings(#[from] SettingErrors),
    /// The login failed.
    #[error(transparent)]
    Login(#[from] KvError),
}

impl Session {
    pub(super) fn new(login: Login, limit: Duration, expiries: Arc<Expiries>) -> Self {
        Self {
            login,
            limit,
            expiries,
            token: ArcSwapOption::empty(),
            gate: Mutex::default(),
        }
    }

    /// The token in use; signs in if there is none.
    ///
    /// # Errors
    /// Why there is none; within a second of a try, that try's error again.
    pub(super) async fn token(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
    ) -> Result<Arc<Token>, KvError> {
        match self.token.load_full() {
            Some(token) => Ok(token),
            None => self.replace(connection, None).await,
        }
    }

    /// What an answer says of the token that it was asked with. `Some`: Consul does not know that
    /// token, and here is another one to ask again with.
    ///
    /// # Errors
    /// [`KvError::Denied`], whatever kept the new login from it: Consul has just refused, so this
    /// is no outage.
    pub(super) async fn judge(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        token: &Arc<Token>,
        answer: &Answer,
    ) -> Result<Option<Arc<Token>>, KvError> {
        token.take(answer);
        if !answer.is_of_unknown_token() {
            return Ok(None);
        }
        match self.replace(connection, Some(Arc::clone(token))).await {
            Ok(next) => Ok(Some(next).filter(|next| !Arc::ptr_eq(next, token))),
            Err(error) => Err(KvError::Denied(format!(
                "Consul does not know the token of the last login any more, and the next one \
                 failed: {error}"
            ))),
        }
    }

    /// A token in place of one that Consul does not know: a new one, the one that another request
    /// obtained meanwhile, or the same again when the last login was just now.
    ///
    /// # Errors
    /// Why there is none; within a second of a try, that try's error again.
    async fn replace(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        unknown: Option<Arc<Token>>,
    ) -> Result<Arc<Token>, KvError> {
        let (session, connection) = (Arc::clone(self), Arc::clone(connection));
        // In a task of its own: a reading that is given up must not lose the token under way.
        let login = tokio::spawn(async move { session.enter(&connection, unknown).await });
        login.await.unwrap_or_else(|_| Err(interrupted()))
    }

    async fn enter(
        &self,
        connection: &Connection,
        unknown: Option<Arc<Token>>,
    ) -> Result<Arc<Token>, KvError> {
        let mut gate = self.gate.lock().await;
        if gate.closed {
            return Err(interrupted());
        }
        let current = self.token.load_full();
        let is_unknown =
            |token: &Arc<Token>| unknown.as_ref().is_some_and(|u| Arc::ptr_eq(u, token));
        if let Some(token) = current.as_ref().filter(|token| !is_unknown(token)) {
            return Ok(Arc::clone(token));
        }
        if current.as_ref().is_some_and(|token| token.was_taken()) {
            gate.fruitless = 0;
        }
        if gate.last.is_some_and(|last| last.elapsed() < gate.pause()) {
            return match (&gate.refusal, current) {
                (Some(refusal), _) => Err(refusal.clone()),
                (None, Some(token)) => Ok(token),
                (None, None) => Err(interrupted()),
            };
        }
        let outcome = self.sign_in(&mut gate, connection).await;
        if let Ok(token) = &outcome {
            self.token.store(Some(Arc::clone(token)));
        }
        outcome
    }

    async fn sign_in(
        &self,
        gate: &mut Gate,
        connection: &Connection,
    ) -> Result<Arc<Token>, KvError> {
        let outcome = login::sign_in(connection, &self.login, self.limit).await;
        gate.last = Some(Instant::now());
        gate.refusal = outcome.as_ref().err().cloned();
        let granted = outcome?;
        self.expiries.set(Credential::Login, granted.end);
        gate.fruitless = gate.fruitless.saturating_add(1);
        Ok(Arc::new(Token {
            granted,
            taken: AtomicBool::new(false),
        }))
    }

    /// Signs in anew, so that changed rules and a replaced bearer token count, and gives the old
    /// token back. When that fails the old one stays in use.
    ///
    /// # Errors
    /// Why there is no new token.
    pub(super) async fn renew(&self, connection: &Connection) -> Result<(), KvError> {
        let mut gate = self.gate.lock().await;
        if gate.closed {
            return Err(interrupted());
        }
        let token = self.sign_in(&mut gate, connection).await?;
        if let Some(old) = self.token.swap(Some(token)) {
            // It expires by itself; the new one is what counts.
            let _ = login::sign_out(connection, &old.granted, self.limit).await;
        }
        Ok(())
    }

    /// Gives the token back. No login comes after it.
    ///
    /// # Errors
    /// That the token stays behind, by its accessor, and why.
    pub(super) async fn close(&self, connection: &Connection) -> Result<(), KvError> {
        self.gate.lock().await.closed = true;
        match self.token.swap(None) {
            Some(token) => login::sign_out(connection, &token.granted, self.limit).await,
            None => Ok(()),
        }
    }
}

impl Token {
    pub(super) fn header(&self) -> &HeaderValue {
        &self.granted.secret
    }

    /// Notes whether Consul knows it.
    pub(super) fn take(&self, answer: &Answer) {
        if answer.status < 500 && !answer.is_of_unknown_token() {
            self.taken.store(true, Ordering::Relaxed);
        }
    }

    fn was_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Gate {
    /// Failed tries come at an even pace: only Consul's own, fresh refusal holds a replica. Logins
    /// that lead to nothing become rare.
    fn pause(&self) -> Duration {
        let doublings = self.fruitless.saturating_sub(1).min(6);
        match self.refusal {
            Some(_) => PAUSE,
            None => (PAUSE * (1 << doublings)).min(PAUSE_MAX),
        }
    }
}

fn interrupted() -> KvError {
    KvError::Unreachable("signed out: the program is ending".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause in seconds after each login in a row whose token Consul never took.
    #[test]
    fn logins_that_lead_to_nothing_become_rare_and_refused_ones_keep_their_pace() {
        let mut gate = Gate::default();
        let mut pauses = Vec::new();
        for fruitless in 1..=9 {
            gate.fruitless = fruitless;
            pauses.push(gate.pause().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        gate.refusal = Some(interrupted());
        assert_eq!(gate.pause(), PAUSE);
    }
}
