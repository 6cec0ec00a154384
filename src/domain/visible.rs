//! Texts that somebody wrote, so that they cannot hide or move what stands beside them.

/// The text in one line of at most so many characters, and a mark when it was longer. Control
/// characters, and those that nobody sees or that turn others round, are shown escaped.
#[must_use]
pub fn visible(text: &str, chars_max: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_or_hides_is_shown_escaped_and_what_is_long_is_cut() {
        for (text, shown) in [
            ("a\u{202e}b\u{0}\r\nc", "a\\u{202e}b\\u{0}\\u{d}\\u{a}c"),
            ("\u{1b}[2J\u{9b}1A", "\\u{1b}[2J\\u{9b}1A"),
            ("Grüße, 東京", "Grüße, 東京"),
        ] {
            assert_eq!(visible(text, 240), shown);
        }
        assert_eq!(visible("éééé", 3), "ééé…");
    }
}
