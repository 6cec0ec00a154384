//! What the commands print, whole, as the repository keeps it in `tests/golden`. After a change of
//! what they print, run these tests with `TIDEGATE_WRITE_DOCS=1` and read the difference.

use std::fmt::Write as _;

use regex::Regex;

use crate::harness::kept::expect_kept;
use crate::harness::process::Output;

mod changes;
mod refusals;
mod shown;
mod watch;

/// What differs from run to run, and what stands for it.
const CHANGING: [(&str, &str); 9] = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b01[0-9A-HJKMNP-TV-Z]{24}\b", "<id>"),
    (r"127\.0\.0\.1:\d{4,}", "<address>"),
    (r"(/tmp/|/var/)[^\s:,\x22]+", "<path>"),
    (r"\b\d+ (s|min|h|days) ago", "<age> ago"),
    (r"\b(generation |gprd=)\d+\.", "$1<epoch>."),
    (r"\bi=\d+", "i=<index>"),
    (r#"("index": |"epoch": |\bindex +)\d+"#, "$1<index>"),
    (r"\(os error \d+\)", "(os error)"),
];

/// Commands and what each prints, one after the other.
#[derive(Default)]
pub(super) struct Transcript(String);

impl Transcript {
    /// `$ tidegate <shown>`, its standard output, its standard error behind `! `, and its exit code
    /// unless that is 0.
    pub(super) fn add(&mut self, shown: &[&str], output: &Output) {
        let word = |word: &&str| {
            let quoted = word.contains([' ', '(', '|', '*']);
            if quoted {
                format!("'{word}'")
            } else {
                (*word).to_owned()
            }
        };
        let words: Vec<_> = shown.iter().map(word).collect();
        let text = &mut self.0;
        writeln!(text, "$ tidegate {}", words.join(" ")).expect("a string takes every byte");
        text.push_str(&output.stdout);
        for line in output.stderr.lines() {
            writeln!(text, "! {line}").expect("a string takes every byte");
        }
        if output.code != Some(0) {
            writeln!(text, "= {:?}", output.code.unwrap_or(-1)).expect("a string takes every byte");
        }
        text.push('\n');
    }

    /// A line about what comes next.
    pub(super) fn say(&mut self, text: &str) {
        writeln!(self.0, "# {text}\n").expect("a string takes every byte");
    }

    /// Expects `tests/golden/<name>.txt` to hold the same.
    #[track_caller]
    pub(super) fn expect_kept(self, name: &str) {
        let temporary = std::env::temp_dir().display().to_string();
        let mut text = self.0.replace(&temporary, "/tmp");
        assert!(!text.contains('\x1b'), "{text}");
        for (pattern, stands_for) in CHANGING {
            let pattern = Regex::new(pattern).expect("a constant pattern");
            text = pattern.replace_all(&text, stands_for).into_owned();
        }
        expect_kept(&format!("tests/golden/{name}.txt"), &text);
    }
}
