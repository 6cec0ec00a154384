//! The forms in which commands print what they found.

use clap::ValueEnum;
use serde::Serialize;

/// How a command prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Table,
    Json,
}

/// A value as JSON, a newline at its end.
pub(super) fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(value);
    steering_nothing(json.expect("strings and numbers always serialise") + "\n")
}

/// The same in one line.
pub(super) fn json_line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value);
    steering_nothing(json.expect("strings and numbers always serialise") + "\n")
}

/// Escapes the control characters that JSON lets stand in its strings: those above ASCII.
fn steering_nothing(json: String) -> String {
    let steers = |char: char| matches!(char, '\u{7f}'..='\u{9f}');
    if !json.contains(steers) {
        return json;
    }
    let escaped = |char: char| match char {
        char if steers(char) => format!("\\u{:04x}", u32::from(char)),
        char => char.to_string(),
    };
    json.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_no_control_character_and_reads_back_the_same() {
        let text = "a\u{1b}[2J\u{9b}31m\u{7f}\n";
        for json in [json(&text), json_line(&text)] {
            let shown = json.trim_end();
            assert!(!shown.contains(char::is_control), "{shown:?}");
            assert_eq!(serde_json::from_str::<String>(shown).unwrap(), text);
        }
    }
}
