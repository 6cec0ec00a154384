//! Telling others of a change. It never fails the change: what cannot be told is a note.
//!
//! At most once: whoever is not reached is not asked again, since an answer that was lost would
//! have the same change told twice. The history has every change.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Context;
use super::ask::tell;
use super::commit::{About, Unwritten};
use super::write::{AuthorArgs, Writing, command_line, trace};
use crate::causes::root_cause;
use crate::clock;
use crate::config::{Form, Receiver, ReceiverAddress, announce_url};
use crate::domain::announcement::{Announcement, Made, Outcome, by_sockets};
use crate::domain::history::Changed;
use crate::domain::sentinel::Generation;
use crate::http_client;
use crate::secret_file;

/// How long one receiver may take. A command waits no longer than that for all of them, as they
/// are told at once.
const TELLING_TIME_MAX: Duration = Duration::from_secs(3);

/// An announcement on its way.
#[must_use = "it has to be awaited"]
pub(super) struct Announcing(JoinSet<Result<(), String>>);

/// Tells of what was written, or may have been, and whether every socket took its part.
pub(super) fn change(
    context: &Context,
    about: &About,
    writing: &Writing<'_>,
    (written, by_socket): (&Result<Generation, Unwritten>, bool),
) -> Announcing {
    let progress = writing.progress();
    let (mut parts, mut rows) = (progress.written().to_vec(), writing.rows());
    let outcome = match written {
        Ok(_) if by_socket => Outcome::Written,
        Ok(_) => Outcome::Partly,
        Err(unwritten) if unwritten.unknown => {
            parts.extend(progress.left().first().cloned());
            Outcome::Unknown
        }
        Err(_) if !parts.is_empty() => Outcome::Partly,
        Err(_) => return Announcing(JoinSet::new()),
    };
    if parts.len() < progress.written().len() + progress.left().len() {
        // The rows are those of the whole change.
        rows = &[];
    }
    let changed: Vec<_> = parts.iter().flatten().map(Changed::from).collect();
    let made = Made {
        at: clock::now(),
        by: &about.by,
        reason: about.reason.as_deref(),
        environment: context.environment.as_str(),
        command: &about.command,
        change: Some(&about.change),
        trace: about.trace.as_deref(),
        outcome,
    };
    let text = by_sockets(&changed, &writing.socket_changes());
    announce(context, &Announcement::new(&made, &changed, rows, text))
}

/// Tells of a change that the history does not hold, in these words.
pub(super) fn event(
    context: &Context,
    author: &AuthorArgs,
    changed: &[Changed],
    text: String,
    written: Result<(), &Unwritten>,
) -> Announcing {
    let outcome = match written {
        Ok(()) => Outcome::Written,
        Err(unwritten) if unwritten.unknown => Outcome::Unknown,
        Err(_) => return Announcing(JoinSet::new()),
    };
    let trace = trace();
    let made = Made {
        at: clock::now(),
        by: &author.name(),
        reason: author.reason(),
        environment: context.environment.as_str(),
        command: &command_line(),
        change: None,
        trace: trace.as_deref(),
        outcome,
    };
    announce(context, &Announcement::new(&made, changed, &[], Some(text)))
}

/// Begins to tell everybody.
fn announce(context: &Context, announcement: &Announcement) -> Announcing {
    let mut all = JoinSet::new();
    for receiver in context.receivers.iter().cloned() {
        let body = match receiver.form {
            Form::Json => announcement.to_json(),
            Form::Chat => announcement.to_chat(),
        };
        let told = async move {
            let in_time = timeout(TELLING_TIME_MAX, post(&receiver, body)).await;
            in_time
                .unwrap_or_else(|_| Err(format!("no answer within {TELLING_TIME_MAX:?}")))
                .map_err(|why| format!("{}: {why}", receiver.name))
        };
        context.block_on(async { all.spawn(told) });
    }
    Announcing(all)
}

impl Announcing {
    /// Waits until everybody was told, or could not be.
    pub(super) fn finish(self, context: &Context) {
        for told in context.block_on(self.0.join_all()) {
            if let Err(why) = told {
                tell(&format!("note: the change was not announced to {why}\n"));
            }
        }
    }
}

/// The answer's body is not read: nothing in it matters, whatever its size.
async fn post(receiver: &Receiver, body: String) -> Result<(), String> {
    let url = match &receiver.address {
        ReceiverAddress::Url(url) => url.clone(),
        ReceiverAddress::File(path) => {
            let text = secret(path)?;
            announce_url(&text).map_err(|why| format!("{}: {why}", path.display()))?
        }
    };
    let builder = if url.starts_with("https:") {
        http_client::builder()
    } else {
        // The system's authorities are not needed: an image from scratch has none.
        http_client::plain()
    };
    let client = builder.build().map_err(|error| root_cause(&error))?;
    let mut request = client.post(url).header(CONTENT_TYPE, "application/json");
    if let Some(path) = &receiver.token_file {
        let value = format!("Bearer {}", secret(path)?);
        let value = HeaderValue::try_from(value);
        let mut value =
            value.map_err(|_| format!("{}: no token that fits a header", path.display()))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    // The URL may be a secret, and the error would show it.
    let answer = request.body(body).send().await;
    let status = answer
        .map_err(|error| root_cause(&error.without_url()))?
        .status();
    if status.is_success() {
        Ok(())
    } else if status.is_redirection() {
        Err(format!(
            "it answers {status}, and redirects are not followed"
        ))
    } else {
        Err(format!("it answers {status}"))
    }
}

fn secret(path: &Path) -> Result<String, String> {
    secret_file::line(path).map_err(|error| format!("{error:#}"))
}
