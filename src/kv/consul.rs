//! Consul KV, through consulrs's request types and our own transport.
//!
//! This is the only file that names consulrs. As published it loses the index of every 404, has
//! no time limits, cannot do mutual TLS and encodes keys twice (each measured on a real Consul);
//! its request types, `KVPair` and `Features` do none of that. It and rustify log each request
//! at INFO and each error at ERROR: filter them with `consulrs=warn,rustify=off`.
//!
//! What Consul does not tell: a listing with 404 is an empty prefix, or a token that may see
//! nothing of it (without `enable_key_list_policy` both look the same). A [`Kv::get`] of a key
//! that must be there tells them apart: 403 is [`KvError::Denied`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use consulrs::api::Features;
use consulrs::api::features::{Blocking, ConsistencyMode};
use consulrs::api::kv::common::KVPair;
use consulrs::api::kv::requests::{ReadKeyRequest, ReadKeysRequest, SetKeyRequest};
use reqwest::Url;
use rustify::endpoint::{Endpoint, MiddleWare};
use rustify::errors::ClientError;

use self::answer::{Answer, denied, read_failed, write_failed};
use self::environment::{ConsulSettings, SettingErrors, TokenSource};
use self::failure::Failure;
use self::session::Session;
use self::transport::{Connection, send};
use self::txn::{TxnRequest, Verdict, Wire};
use super::expiries::Expiries;
use super::request::{check_key, check_operations};
use super::{Capabilities, ClockReading, Expect, Kv, KvError, Operation, Outcome, Outline};
use crate::clock;
use crate::domain::key::{EPOCH_PROBE, Prefix};
use crate::domain::listing::{Entry, Listing};

pub use self::session::ReloadError;

mod answer;
mod credentials;
pub mod environment;
mod failure;
mod login;
mod own_token;
mod session;
mod transport;
mod txn;

/// Consul KV behind one agent.
pub struct ConsulKv {
    settings: ConsulSettings,
    connection: ArcSwap<Connection>,
    /// With a login: its token.
    session: Option<Arc<Session>>,
    /// The clock that the last light read showed.
    clock: ArcSwapOption<ClockReading>,
    expiries: Arc<Expiries>,
}

impl ConsulKv {
    /// Reads the files that the settings name. Connects to nothing.
    ///
    /// # Errors
    /// Everything that is wrong with the files, at once.
    pub fn new(settings: ConsulSettings) -> Result<Self, SettingErrors> {
        let connection = Connection::new(&settings)?;
        let expiries = Arc::new(Expiries::default());
        connection.ends.tell(&expiries);
        let session = match &settings.token {
            TokenSource::Login(login) => Some(Arc::new(Session::new(
                login.clone(),
                settings.limits.answer,
                Arc::clone(&expiries),
            ))),
            TokenSource::None | TokenSource::Given(_) | TokenSource::File(_) => None,
        };
        Ok(Self {
            settings,
            session,
            connection: ArcSwap::from_pointee(connection),
            clock: ArcSwapOption::empty(),
            expiries,
        })
    }

    /// Reads token and certificates anew, and signs in anew. Requests under way end as they began;
    /// if anything is wrong, the old ones stay in use.
    ///
    /// # Errors
    /// Everything that is wrong with the files, at once; or why the login failed.
    pub async fn reload(&self) -> Result<(), ReloadError> {
        let connection = Connection::new(&self.settings)?;
        if let Some(session) = &self.session {
            session.renew(&connection).await?;
        }
        connection.ends.tell(&self.expiries);
        self.connection.store(Arc::new(connection));
        Ok(())
    }

    /// Whether there is a token to give back at the end.
    #[must_use]
    pub fn signs_in(&self) -> bool {
        self.session.is_some()
    }

    /// Gives the token of a login back, within twice the time limit of an answer. Nothing can be
    /// asked afterwards. Without a login nothing happens.
    ///
    /// # Errors
    /// That the token stays behind, by its accessor, and why.
    pub async fn close(&self) -> Result<(), KvError> {
        match &self.session {
            Some(session) => session.close(&self.connection.load_full()).await,
            None => Ok(()),
        }
    }

    /// Until when it can be reached with what is in use.
    #[must_use]
    pub fn expiries(&self) -> &Arc<Expiries> {
        &self.expiries
    }

    /// How this store was configured.
    #[must_use]
    pub fn settings(&self) -> &ConsulSettings {
        &self.settings
    }

    async fn list_below(
        &self,
        prefix: &str,
        blocking: Option<Blocking>,
        limit: Duration,
    ) -> Result<Listing, KvError> {
        let request = ReadKeyRequest {
            key: prefix.to_owned(),
            recurse: Some(true),
            ..ReadKeyRequest::default()
        };
        let (answer, index) = self.read(request, blocking, limit, prefix).await?;
        let entries = if answer.status == 404 {
            BTreeMap::new()
        } else {
            entries_below(prefix, &answer.body)?
        };
        Ok(Listing { index, entries })
    }

    /// One consistent read. Never `?stale`: a restarted server answered it with an empty prefix.
    async fn read<E: Endpoint>(
        &self,
        endpoint: E,
        blocking: Option<Blocking>,
        limit: Duration,
        what: &str,
    ) -> Result<(Answer, u64), KvError> {
        let features = Features {
            blocking,
            mode: Some(ConsistencyMode::CONSISTENT),
            ..Features::default()
        };
        let answer = self.exchange(endpoint, Some(features), limit).await;
        let answer = answer.map_err(read_failed)?;
        answer.of_read(what, &self.settings.token)
    }

    async fn exchange<E: Endpoint>(
        &self,
        endpoint: E,
        features: Option<Features>,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        let connection = self.connection.load_full();
        let query = Query {
            features,
            settings: &self.settings,
        };
        let endpoint = endpoint.with_middleware(&query);
        let Some(session) = &self.session else {
            let answer = send(&endpoint, &connection, None, limit).await?;
            if answer.status == 403 {
                self.refresh_token(&connection);
            }
            return Ok(answer);
        };
        let token = session.token(&connection).await.map_err(Failure::NoToken)?;
        let answer = send(&endpoint, &connection, Some(token.header()), limit).await?;
        let next = session.judge(&connection, &token, &answer).await;
        let Some(next) = next.map_err(Failure::NoToken)? else {
            return Ok(answer);
        };
        // The first time it was not acted on, so that a write is no second write.
        let answer = send(&endpoint, &connection, Some(next.header()), limit).await?;
        next.take(&answer);
        Ok(answer)
    }

    /// A token in a file may have been replaced: the next request uses the new one. A file that
    /// cannot be read changes nothing: the refusal itself is what the caller must hear of.
    fn refresh_token(&self, refused: &Connection) {
        let TokenSource::File(_) = self.settings.token else {
            return;
        };
        if let Ok(token) = credentials::token(&self.settings.token)
            && token != refused.token
        {
            let mut connection = refused.clone();
            connection.token = token;
            self.connection.store(Arc::new(connection));
        }
    }

    async fn transact_as_txn(
        &self,
        operations: &[Operation],
        wire: &Wire<'_>,
        body: Vec<u8>,
    ) -> Result<Outcome, KvError> {
        let request = TxnRequest { body };
        let limit = self.settings.limits.answer;
        let answer = self.exchange(request, None, limit).await;
        let answer = answer.map_err(write_failed)?;
        match wire.verdict(&answer, &self.settings.token)? {
            Verdict::Refused(outcome) => Ok(outcome),
            Verdict::Applied(Some(index)) => Ok(Outcome::Committed { index }),
            Verdict::Applied(None) => self.committed_later(operations[0].key()).await,
        }
    }

    /// One value that is too large for a transaction's body, as an ordinary write.
    async fn put(&self, key: &str, value: &Bytes, expect: Expect) -> Result<Outcome, KvError> {
        let request = SetKeyRequest {
            key: key.to_owned(),
            value: value.to_vec(),
            cas: match expect {
                Expect::Anything => None,
                Expect::Missing => Some(0),
                Expect::Index(index) => Some(index),
            },
            ..SetKeyRequest::default()
        };
        let answer = self
            .exchange(request, None, self.settings.limits.answer)
            .await
            .map_err(write_failed)?;
        match (answer.status, answer.body.trim_ascii()) {
            (200, b"true") => self.committed_later(key).await,
            (200, b"false") => Ok(Outcome::Conflict {
                key: Some(key.to_owned()),
            }),
            (403, _) => {
                let what = format!("writing {key:?}");
                Err(denied(&what, &answer.text(), &self.settings.token))
            }
            (400 | 413, _) => Err(KvError::BadRequest(answer.describe())),
            (429, _) => Err(KvError::Unreachable(answer.describe())),
            (200 | 500.., _) => Err(KvError::OutcomeUnknown(answer.describe())),
            _ => Err(KvError::BadAnswer(answer.describe())),
        }
    }

    /// The index after a write whose answer tells none: of the key, or, as it was deleted, of
    /// the reading. Somebody else may have written since, so it is "not below".
    async fn committed_later(&self, key: &str) -> Result<Outcome, KvError> {
        match self.read_key(key).await {
            Ok((Some(entry), _)) => Ok(Outcome::Committed {
                index: entry.modify_index,
            }),
            Ok((None, index)) => Ok(Outcome::Committed { index }),
            Err(error) => Err(KvError::OutcomeUnknown(format!(
                "the write was applied, but its index could not be read: {error}"
            ))),
        }
    }

    async fn read_key(&self, key: &str) -> Result<(Option<Entry>, u64), KvError> {
        let request = ReadKeyRequest {
            key: key.to_owned(),
            ..ReadKeyRequest::default()
        };
        let limit = self.settings.limits.answer;
        let (answer, index) = self.read(request, None, limit, key).await?;
        if answer.status == 404 {
            return Ok((None, index));
        }
        let mut pairs = pairs(&answer.body)?;
        match (pairs.pop(), pairs.is_empty()) {
            (Some(pair), true) if pair.key == key => Ok((Some(entry(pair)?), index)),
            (_, _) => Err(KvError::BadAnswer(format!(
                "asked for {key:?}, Consul answered with something else"
            ))),
        }
    }
}

impl Kv for ConsulKv {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writable: true,
            key_beside_children: true,
            odd_keys: true,
            access_rights: true,
            atomic_for_all: true,
        }
    }

    fn clock(&self) -> Option<ClockReading> {
        self.clock.load().as_deref().copied()
    }

    async fn list(&self, prefix: &Prefix) -> Result<Listing, KvError> {
        let limit = self.settings.limits.answer;
        self.list_below(prefix.as_str(), None, limit).await
    }

    async fn watch(&self, prefix: &Prefix, after: u64, wait: Duration) -> Result<Listing, KvError> {
        let blocking = Blocking {
            index: after,
            wait: Some(format!("{}ms", wait.as_millis())),
        };
        // Consul adds up to a sixteenth to the wait, so that watchers spread.
        let limit = wait + wait / 16 + self.settings.limits.blocking_slack;
        self.list_below(prefix.as_str(), Some(blocking), limit)
            .await
    }

    async fn confirm(&self, prefix: &Prefix) -> Result<Outline, KvError> {
        let prefix = prefix.as_str();
        let request = ReadKeysRequest {
            key: prefix.to_owned(),
            keys: true,
            separator: Some("/".to_owned()),
            ..ReadKeysRequest::default()
        };
        let limit = self.settings.limits.answer;
        let sent = clock::now();
        let (answer, index) = self.read(request, None, limit, prefix).await?;
        let received = clock::now();
        self.clock.store(answer.date.map(|date| {
            Arc::new(ClockReading {
                date,
                sent,
                received,
            })
        }));
        let names = if answer.status == 404 {
            BTreeSet::new()
        } else {
            names_below(prefix, &answer.body)?
        };
        Ok(Outline { index, names })
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        check_key(key)?;
        Ok(self.read_key(key).await?.0)
    }

    /// The index of a prefix below which nothing was ever written is that of the whole table. The
    /// last segment is drawn anew each time: keys that somebody writes below the fixed part do not
    /// matter, nor does the index of their tombstones, which is lower than the table's.
    async fn table_index(&self, prefix: &Prefix) -> Result<u64, KvError> {
        let never_written = format!("{EPOCH_PROBE}{:016x}/", rand::random::<u64>());
        let limit = self.settings.limits.answer;
        let probe = prefix.key(never_written);
        Ok(self.list_below(&probe, None, limit).await?.index)
    }

    async fn transact(&self, operations: &[Operation]) -> Result<Outcome, KvError> {
        check_operations(operations)?;
        // Consul reads index 0 as "must not be there"; no entry has it.
        if let Some(never) = operations.iter().find(|o| o.expect() == Expect::Index(0)) {
            return Ok(Outcome::Conflict {
                key: Some(never.key().to_owned()),
            });
        }
        let wire = Wire::new(operations);
        let body = wire.body()?;
        match operations {
            [Operation::Set { key, value, expect }] if body.len() > txn::BODY_BYTES_MAX => {
                self.put(key, value, *expect).await
            }
            _ => self.transact_as_txn(operations, &wire, body).await,
        }
    }
}

/// Adds what consulrs leaves to a middleware, each thing encoded once.
struct Query<'a> {
    features: Option<Features>,
    settings: &'a ConsulSettings,
}

impl MiddleWare for Query<'_> {
    fn request<E: Endpoint>(
        &self,
        _endpoint: &E,
        request: &mut http02::Request<Vec<u8>>,
    ) -> Result<(), ClientError> {
        if let Some(features) = &self.features {
            features.process(request);
        }
        let extra = [
            ("ns", &self.settings.namespace),
            ("partition", &self.settings.partition),
        ];
        for (name, value) in extra {
            if let Some(value) = value {
                let mut url = Url::parse(&request.uri().to_string())
                    .map_err(|source| ClientError::UrlParseError { source })?;
                url.query_pairs_mut().append_pair(name, value);
                *request.uri_mut() = url
                    .as_str()
                    .parse()
                    .map_err(|source| ClientError::UrlBuildError { source })?;
            }
        }
        Ok(())
    }

    fn response<E: Endpoint>(
        &self,
        _endpoint: &E,
        _response: &mut http02::Response<Vec<u8>>,
    ) -> Result<(), ClientError> {
        Ok(())
    }
}

impl fmt::Debug for ConsulKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsulKv")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

fn pairs(body: &[u8]) -> Result<Vec<KVPair>, KvError> {
    serde_json::from_slice(body).map_err(|e| KvError::BadAnswer(format!("KV entries: {e}")))
}

fn entry(pair: KVPair) -> Result<Entry, KvError> {
    let value: Result<Vec<u8>, _> = pair.value.map_or(Ok(Vec::new()), TryInto::try_into);
    let value = value
        .map_err(|_| KvError::BadAnswer(format!("the value of {:?} is no base64", pair.key)))?;
    Ok(Entry {
        value: value.into(),
        modify_index: pair.modify_index,
    })
}

fn entries_below(prefix: &str, body: &[u8]) -> Result<BTreeMap<String, Entry>, KvError> {
    let mut entries = BTreeMap::new();
    for pair in pairs(body)? {
        if let Some(path) = path_below(prefix, &pair.key)? {
            entries.insert(path, entry(pair)?);
        }
    }
    Ok(entries)
}

fn names_below(prefix: &str, body: &[u8]) -> Result<BTreeSet<String>, KvError> {
    let keys: Vec<String> =
        serde_json::from_slice(body).map_err(|e| KvError::BadAnswer(format!("KV keys: {e}")))?;
    let names = keys.iter().map(|key| path_below(prefix, key));
    names.filter_map(Result::transpose).collect()
}

/// A path relative to the prefix; `None` for the folder marker of the prefix itself.
fn path_below(prefix: &str, key: &str) -> Result<Option<String>, KvError> {
    match key.strip_prefix(prefix) {
        Some("") => Ok(None),
        Some(path) => Ok(Some(path.to_owned())),
        None => Err(KvError::BadAnswer(format!(
            "asked for {prefix:?}, Consul answered with {key:?}"
        ))),
    }
}

#[cfg(test)]
mod tests;
