//! The page's own files: kept by browsers for ever, under a name that holds their hash.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::HEADERS;
use crate::domain::hash::fnv1a;

/// One file.
pub(super) struct Asset {
    /// Its path: `/assets/page-<hash>.css`.
    pub(super) path: String,
    kind: &'static str,
    text: &'static str,
}

/// A year, and never asked for again: other contents have another name.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("assets/page.css");
    Asset::new("page", "css", "text/css; charset=utf-8", text)
});
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("assets/page.js");
    Asset::new("page", "js", "text/javascript; charset=utf-8", text)
});
pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("assets/icon.svg");
    Asset::new("icon", "svg", "image/svg+xml", text)
});

impl Asset {
    fn new(name: &str, ending: &str, kind: &'static str, text: &'static str) -> Self {
        let hash = fnv1a(text.bytes());
        Self {
            path: format!("/assets/{name}-{hash:016x}.{ending}"),
            kind,
            text,
        }
    }
}

/// `GET /assets/<file>`.
pub(super) async fn asset(Path(file): Path<String>) -> Response {
    let all = [&*STYLE, &*SCRIPT, &*ICON];
    let named = |asset: &&&Asset| asset.path.strip_prefix("/assets/") == Some(file.as_str());
    let Some(asset) = all.iter().find(named) else {
        let text = "no such file: load the page again\n";
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let about = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.kind)),
        (header::CACHE_CONTROL, FOR_EVER),
    ];
    (HEADERS, about, asset.text).into_response()
}
