//! Where changes are announced.

use std::path::PathBuf;

use super::observe::{pairs, web_address};
use super::settings::Setting;
use crate::domain::name::Name;

/// The most receivers: each is told of every change, and waited for.
pub(super) const RECEIVERS_MAX: usize = 8;
/// What stands before the path of a file that holds the URL.
const IN_A_FILE: &str = "file:";

/// Whom the writing commands tell of every change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Its name, for notes: its URL may be a secret.
    pub name: Name,
    /// Where it is.
    pub address: ReceiverAddress,
    /// A file with the token that it is shown.
    pub token_file: Option<PathBuf>,
    /// In which form it is told.
    pub form: Form,
}

/// Where a receiver is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiverAddress {
    /// `http://` or `https://`.
    Url(String),
    /// A file with the URL: that of a chat's hook is a secret by itself.
    File(PathBuf),
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The whole announcement.
    Json,
    /// `{"text": ...}`, one line.
    Chat,
}

/// Names with a text each.
pub(super) type ByName<T> = Vec<(Name, T)>;

/// `events=https://events.example.org/changes,chat=file:/etc/tidegate/chat-hook`.
pub(super) fn urls(_: &Setting, text: &str) -> Result<ByName<ReceiverAddress>, String> {
    let mut all = ByName::new();
    for (name, text) in pairs(text, "events=https://events.example.org/changes")? {
        let address = match text.strip_prefix(IN_A_FILE) {
            Some("") => return Err(format!("{name}: the path is missing; write file:/PATH")),
            Some(path) => ReceiverAddress::File(PathBuf::from(path)),
            None => ReceiverAddress::Url(url(text)?),
        };
        add(&mut all, name, address)?;
    }
    if all.len() > RECEIVERS_MAX {
        let count = all.len();
        return Err(format!("{count} given; {RECEIVERS_MAX} are allowed"));
    }
    Ok(all)
}

/// A receiver's URL. A secret in it belongs into a file.
///
/// # Errors
/// What is wrong, without the text itself: it may be a secret.
pub fn url(text: &str) -> Result<String, String> {
    web_address(text, &['#', '@'])
        .map(str::to_owned)
        .map_err(|why| format!("the URL {why}; write https://HOST/PATH or file:/PATH"))
}

/// `events=/etc/tidegate/events-token`.
pub(super) fn token_files(_: &Setting, text: &str) -> Result<ByName<PathBuf>, String> {
    let mut all = ByName::new();
    for (name, path) in pairs(text, "events=/etc/tidegate/events-token")? {
        if path.is_empty() {
            return Err(format!("{name}: the path is missing"));
        }
        add(&mut all, name, PathBuf::from(path))?;
    }
    Ok(all)
}

fn add<T>(all: &mut ByName<T>, name: Name, value: T) -> Result<(), String> {
    if all.iter().any(|(other, _)| *other == name) {
        return Err(format!("{name} is named twice"));
    }
    all.push((name, value));
    Ok(())
}

/// Puts the three settings together. The error is the setting's key, and what is wrong with it.
pub(super) fn receivers(
    urls: ByName<ReceiverAddress>,
    token_files: &ByName<PathBuf>,
    chat: &[Name],
) -> Result<Vec<Receiver>, (&'static str, String)> {
    let files = token_files.iter().map(|(name, _)| name);
    let keyed = files.map(|name| ("announce.token_files", name));
    let keyed = keyed.chain(chat.iter().map(|name| ("announce.chat", name)));
    for (key, name) in keyed {
        if urls.iter().all(|(known, _)| known != name) {
            return Err((key, format!("{name} is none of announce.urls")));
        }
    }
    let receiver = |(name, address): (Name, ReceiverAddress)| {
        let mut files = token_files.iter();
        let form = if chat.contains(&name) {
            Form::Chat
        } else {
            Form::Json
        };
        Receiver {
            token_file: files
                .find(|(other, _)| *other == name)
                .map(|(_, path)| path.clone()),
            form,
            name,
            address,
        }
    };
    Ok(urls.into_iter().map(receiver).collect())
}
