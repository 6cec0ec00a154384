//! The status page as a program reads it; `slow::page` opens it in a browser.

mod live;
mod shows;

use std::time::Duration;

use crate::harness::http::{Response, request};
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

/// The page now.
pub(crate) fn page(tidegate: &Tidegate) -> Response {
    let limit = Duration::from_secs(5);
    let answer = request(tidegate.http(), "GET", "/", &[], b"", limit).expect("the page is there");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// Waits until the page holds a text, and gives it.
pub(crate) fn await_page(tidegate: &Tidegate, text: &str) -> String {
    eventually(&format!("the page holds {text:?}"), PATIENCE, || {
        let page = page(tidegate).text();
        check(page.contains(text), || words(&page)).map(|()| page)
    })
}

/// The page as soon as a reader sees this in it.
pub(crate) fn await_words(tidegate: &Tidegate, text: &str) -> String {
    eventually(&format!("the page shows {text:?}"), PATIENCE, || {
        let page = page(tidegate).text();
        let shown = words(&page);
        check(shown.contains(text), || shown).map(|()| page)
    })
}

/// What a reader without a browser sees: the text without the tags.
pub(crate) fn words(html: &str) -> String {
    let mut shown = String::new();
    let mut rest = html;
    while let Some((text, tail)) = rest.split_once('<') {
        shown.extend([text, " "]);
        rest = tail.split_once('>').map_or("", |(_, tail)| tail);
    }
    let shown = shown + rest;
    let mut shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ] {
        shown = shown.replace(entity, character);
    }
    shown
}
