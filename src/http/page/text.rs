//! Texts that somebody wrote, and times.

use jiff::Timestamp;
use maud::{Markup, html};

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

fn visible(text: &str, chars_max: usize) -> String {
    let mut characters = text.chars();
    let mut shown = String::new();
    for character in characters.by_ref().take(chars_max) {
        if character.is_control() || is_invisible(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Characters without a width, and those that change the direction of others (Unicode, UAX 9).
const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// A moment. The script says how far it is away; without it the time of day stands.
pub(super) fn moment(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) data-rel { (clock(at, now)) } }
}

fn clock(at: Timestamp, now: Timestamp) -> String {
    let day = |at: Timestamp| at.strftime("%F").to_string();
    if day(at) == day(now) {
        at.strftime("%H:%M:%S UTC").to_string()
    } else {
        at.strftime("%F %H:%M UTC").to_string()
    }
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
            ("a\u{202e}b\u{0}\r\nc", "a\\u{202e}b\\u{0}\\u{d}\\u{a}c"),
            ("Grüße, 東京", "Grüße, 東京"),
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
        assert_eq!(clock(at("2026-11-30T09:59:58.7Z"), now), "09:59:58 UTC");
        assert_eq!(
            clock(at("2026-11-29T23:59:58Z"), now),
            "2026-11-29 23:59 UTC"
        );
    }
}
