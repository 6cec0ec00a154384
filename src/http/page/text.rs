//! Texts that somebody wrote, and times.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::domain::view::time_of_day;
use crate::domain::visible::visible;

/// The longest text that is shown, in characters: a reason is a sentence or two.
const TEXT_CHARS_MAX: usize = 240;
/// The longest one that this program makes: up to eight peers, each with the cause of its error.
const TOLD_CHARS_MAX: usize = 2_000;

/// What somebody wrote: escaped, in its own direction, cut, and without characters that hide or
/// turn what stands beside them.
pub(super) fn said(text: &str) -> Markup {
    html! { bdi { (visible(text, TEXT_CHARS_MAX)) } }
}

/// The same for what this program says of it, the advice at its end.
pub(super) fn told(text: &str) -> Markup {
    html! { bdi { (visible(text, TOLD_CHARS_MAX)) } }
}

/// A moment. The script says how far it is away; without it the time of day stands.
pub(super) fn moment(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) data-rel { (time_of_day(at, now)) } }
}

/// A number with the word for one or several.
pub(super) fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_somebody_wrote_is_markup_or_hides_anything() {
        for (text, shown) in [
            (
                "<script>alert(1)</script>",
                "&lt;script&gt;alert(1)&lt;/script&gt;",
            ),
            (
                "\"><img src=x onerror=y>",
                "&quot;&gt;&lt;img src=x onerror=y&gt;",
            ),
            ("a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(said(text).into_string(), format!("<bdi>{shown}</bdi>"));
        }
        let long = said(&"é".repeat(1_000)).into_string();
        assert_eq!(long, format!("<bdi>{}…</bdi>", "é".repeat(240)));
    }

    #[test]
    fn a_moment_of_another_day_says_which() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-30T10:00:00Z");
        assert_eq!(
            time_of_day(at("2026-11-30T09:59:58.7Z"), now),
            "09:59:58 UTC"
        );
        assert_eq!(
            time_of_day(at("2026-11-29T23:59:58Z"), now),
            "2026-11-29 23:59 UTC"
        );
    }
}
