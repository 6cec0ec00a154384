//! Texts of others, for a log or a terminal: they are shown, and steer nothing.

use std::borrow::Cow;

/// The same with control characters written as `\n`, `\u{1b}`; those of `kept` stay as they are.
#[must_use]
pub fn printable<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let steers = |char: char| char.is_control() && !kept.contains(&char);
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if steers(char) {
            shown.extend(char.escape_debug());
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_the_kept_ones_stay() {
        for (text, kept, expected) in [
            ("listening agent=0.0.0.0:8790", &[][..], None),
            ("grün \u{202e}", &[], None),
            ("a\nforged", &[], Some("a\\nforged")),
            ("a\nforged", &['\n'], None),
            (
                "a\n\u{1b}[2J\u{9b}31m\u{7f}",
                &['\n'],
                Some("a\n\\u{1b}[2J\\u{9b}31m\\u{7f}"),
            ),
            ("a\tb\r", &[], Some("a\\tb\\r")),
        ] {
            let shown = printable(text, kept);
            assert_eq!(shown, expected.unwrap_or(text), "{text:?}");
            assert_eq!(matches!(shown, Cow::Owned(_)), expected.is_some());
        }
    }
}
