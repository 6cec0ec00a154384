//! Transactions: `PUT /v1/txn`, which consulrs does not have
//! (<https://developer.hashicorp.com/consul/api-docs/txn>).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustify_derive::Endpoint;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, denied};
use super::environment::TokenSource;
use crate::kv::{Expect, KvError, Operation, Outcome};

/// The largest body of a transaction that Consul takes unless configured otherwise, in bytes.
/// Values are base64 in it, so that the largest value does not fit.
pub(super) const BODY_BYTES_MAX: usize = 524_288;

/// The request.
#[derive(Debug, Endpoint)]
#[endpoint(path = "txn", method = "PUT", response = "serde_json::Value")]
pub(super) struct TxnRequest {
    #[endpoint(raw)]
    pub(super) body: Vec<u8>,
}

/// A transaction as Consul wants it.
pub(super) struct Wire<'a> {
    operations: Vec<WireOperation<'a>>,
}

#[derive(Serialize)]
struct WireOperation<'a> {
    #[serde(rename = "KV")]
    kv: KvOperation<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct KvOperation<'a> {
    verb: &'static str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Reply {
    results: Option<Vec<ReplyResult>>,
    errors: Option<Vec<ReplyError>>,
}

#[derive(Deserialize)]
struct ReplyResult {
    #[serde(rename = "KV")]
    kv: Option<Written>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    modify_index: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReplyError {
    op_index: usize,
    what: String,
}

/// What a transaction was answered with.
pub(super) enum Verdict {
    /// It was applied. `None`: only deletes, of which Consul tells no index.
    Applied(Option<u64>),
    /// It was not.
    Refused(Outcome),
}

impl<'a> Wire<'a> {
    pub(super) fn new(operations: &'a [Operation]) -> Self {
        Self {
            operations: operations.iter().flat_map(translate).collect(),
        }
    }

    pub(super) fn body(&self) -> Result<Vec<u8>, KvError> {
        serde_json::to_vec(&self.operations).map_err(|e| KvError::BadRequest(e.to_string()))
    }

    /// Reads the answer. A 409 is a failed expectation or a lack of rights.
    pub(super) fn verdict(&self, answer: &Answer, token: &TokenSource) -> Result<Verdict, KvError> {
        match answer.status {
            200 => applied(answer),
            409 => self.refused(answer, token),
            403 => Err(denied("the transaction", &answer.text(), token)),
            400 => Err(KvError::BadRequest(answer.describe())),
            413 => Err(KvError::BadRequest(format!(
                "the transaction is too large for Consul ({})",
                answer.text()
            ))),
            429 => Err(KvError::Unreachable(answer.describe())),
            500.. => Err(KvError::OutcomeUnknown(answer.describe())),
            _ => Err(KvError::BadAnswer(answer.describe())),
        }
    }

    fn refused(&self, answer: &Answer, token: &TokenSource) -> Result<Verdict, KvError> {
        let bad = || KvError::BadAnswer(answer.describe());
        let reply: Reply = serde_json::from_slice(&answer.body).map_err(|_| bad())?;
        let errors = reply.errors.unwrap_or_default();
        let lacks_rights = |e: &&ReplyError| {
            let what = e.what.get(..17).unwrap_or_default();
            what.eq_ignore_ascii_case("permission denied")
        };
        if let Some(error) = errors.iter().find(lacks_rights) {
            let what = format!("writing {:?}", self.key(error).unwrap_or_default());
            return Err(denied(&what, &error.what, token));
        }
        let first = errors.iter().min_by_key(|e| e.op_index).ok_or_else(bad)?;
        let kv = self.operations.get(first.op_index).map(|o| &o.kv);
        if kv.is_some_and(|kv| matches!(kv.verb, "set" | "delete")) {
            // These expect nothing, so this is no conflict.
            return Err(KvError::BadRequest(first.what.clone()));
        }
        let key = self.key(first).map(ToOwned::to_owned);
        Ok(Verdict::Refused(Outcome::Conflict { key }))
    }

    fn key(&self, error: &ReplyError) -> Option<&'a str> {
        self.operations.get(error.op_index).map(|o| o.kv.key)
    }
}

/// The highest index of the written entries: an entry that was given the value that it had
/// already keeps its older one.
fn applied(answer: &Answer) -> Result<Verdict, KvError> {
    // It was applied, whatever else the answer holds.
    let reply: Reply = serde_json::from_slice(&answer.body)
        .map_err(|e| KvError::OutcomeUnknown(format!("the transaction's answer: {e}")))?;
    let results = reply.results.unwrap_or_default();
    let written = results.iter().filter_map(|r| r.kv.as_ref());
    Ok(Verdict::Applied(written.map(|kv| kv.modify_index).max()))
}

fn translate(operation: &Operation) -> Vec<WireOperation<'_>> {
    let wire = |verb, key, value: Option<&[u8]>, index| WireOperation {
        kv: KvOperation {
            verb,
            key,
            value: value.map(|bytes| STANDARD.encode(bytes)),
            index,
        },
    };
    match operation {
        Operation::Set { key, value, expect } => vec![match expect {
            Expect::Anything => wire("set", key, Some(value), None),
            Expect::Missing => wire("cas", key, Some(value), Some(0)),
            Expect::Index(index) => wire("cas", key, Some(value), Some(*index)),
        }],
        Operation::Delete { key, expect } => match expect {
            Expect::Anything => vec![wire("delete", key, None, None)],
            Expect::Missing => vec![wire("check-not-exists", key, None, None)],
            // Not delete-cas: it is content with a key that is gone.
            Expect::Index(index) => vec![
                wire("check-index", key, None, Some(*index)),
                wire("delete", key, None, None),
            ],
        },
    }
}
