//! Files in lines of words: variables put in, conditions judged, environment followed.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::condition::{self, ConditionError, Facts, Suppositions};
use super::version::Version;
use super::words::{self, Variable, Word};

/// The largest file, in bytes. A large site's are below 1 MiB.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// The most lines of all files together.
pub const LINES_MAX: usize = 1 << 20;
/// The most bytes of all words together: a variable can be put in many times.
pub const WORDS_BYTES_MAX: usize = 64 << 20;
/// The most `.if` within each other: HAProxy's `MAXNESTEDCONDS` is one more.
pub const CONDITIONS_MAX: usize = 15;
/// How much of a line is shown, in characters.
const SHOWN_CHARS_MAX: usize = 160;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// What it is called in messages.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What the files are read with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting {
    /// The variables of HAProxy's environment; `HAPROXY_LOCALPEER` is the node's name.
    pub environment: BTreeMap<String, String>,
    /// HAProxy's version, where it is given.
    pub version: Option<Version>,
    /// What is supposed of conditions that cannot be judged.
    pub supposed: Suppositions,
}

/// One physical line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The index of its file.
    pub file: usize,
    /// Its number, from 1.
    pub number: usize,
    /// Its bytes in the file, without the line end.
    pub span: Range<usize>,
    /// Its words; none in a line that HAProxy refuses.
    pub words: Vec<Word>,
    /// Its comment from the `#` on, in bytes of the file.
    pub comment: Option<Range<usize>>,
    /// The variables that it names.
    pub variables: Vec<Variable>,
    /// Whether no condition leaves it out.
    pub is_live: bool,
    /// Whether it is of a section: live, and no condition or notice itself.
    pub counts: bool,
}

/// Where HAProxy refuses a file: no line after it is certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The index of the line.
    pub line: usize,
    /// The byte of the line, where it is a certain one.
    pub column: Option<usize>,
    /// What is wrong.
    pub what: String,
}

/// Files, read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading<'a> {
    /// The files, in HAProxy's order.
    pub files: &'a [File],
    /// Every line of all files, in their order.
    pub lines: Vec<Line>,
    /// What HAProxy refuses.
    pub faults: Vec<Fault>,
    /// What was supposed to read it so.
    pub supposed: Suppositions,
}

/// A question that has to be supposed either way first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown(pub String);

impl<'a> Reading<'a> {
    /// Reads the files in their order. What HAProxy refuses is among [`Self::faults`].
    ///
    /// # Errors
    /// The first condition that neither the setting nor what it supposes decides.
    pub fn of(files: &'a [File], setting: &Setting) -> Result<Self, Unknown> {
        let mut reader = Reader {
            reading: Reading {
                files,
                supposed: setting.supposed.clone(),
                ..Reading::default()
            },
            environment: setting.environment.clone(),
            setting,
            section: None,
            conditions: Vec::new(),
            taken: 0,
        };
        for file in 0..files.len() {
            reader.file(file)?;
        }
        Ok(reader.reading)
    }

    /// The bytes of a line.
    #[must_use]
    pub fn bytes(&self, line: &Line) -> &'a [u8] {
        &self.files[line.file].bytes[line.span.clone()]
    }

    /// The text of a line for a person: bounded, and what is not printable escaped.
    #[must_use]
    pub fn shown(&self, line: &Line) -> String {
        let text = String::from_utf8_lossy(self.bytes(line));
        let mut shown = String::new();
        for (at, character) in text.trim().chars().enumerate() {
            if at == SHOWN_CHARS_MAX {
                shown.push_str("...");
                break;
            }
            match character {
                '\t' => shown.push(' '),
                c if c.is_control() => shown.extend(c.escape_default()),
                c => shown.push(c),
            }
        }
        shown
    }

    /// `file:line`.
    #[must_use]
    pub fn place(&self, line: usize) -> String {
        match self.lines.get(line) {
            Some(line) => format!("{}:{}", self.files[line.file].name, line.number),
            None => self
                .files
                .first()
                .map_or_else(String::new, |file| file.name.clone()),
        }
    }
}

impl Line {
    /// The words up to the first empty one: HAProxy reads no further.
    #[must_use]
    pub fn arguments(&self) -> &[Word] {
        let end = self.words.iter().position(|word| word.text.is_empty());
        &self.words[..end.unwrap_or(self.words.len())]
    }

    /// A word's text; empty where there is none.
    #[must_use]
    pub fn word(&self, at: usize) -> &str {
        self.arguments().get(at).map_or("", |word| &word.text)
    }
}

/// One `.if` that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Condition {
    /// Whether its present branch counts.
    counts: bool,
    /// Whether a later branch may count.
    open: bool,
    has_else: bool,
}

struct Reader<'a, 's> {
    reading: Reading<'a>,
    environment: BTreeMap<String, String>,
    setting: &'s Setting,
    /// The first word of the section's head, and the value of `${.SECTION}`.
    section: Option<(String, String)>,
    conditions: Vec<Condition>,
    /// The bytes of all words so far.
    taken: usize,
}

impl Reader<'_, '_> {
    fn file(&mut self, file: usize) -> Result<(), Unknown> {
        let bytes = &self.reading.files[file].bytes;
        let mut begin = 0;
        // A section ends with its file.
        self.section = None;
        for number in 1.. {
            let rest = &bytes[begin..];
            if rest.is_empty() {
                break;
            }
            let length = rest.iter().position(|&byte| byte == b'\n');
            let end = begin + length.unwrap_or(rest.len());
            self.line(file, number, begin..end)?;
            if length.is_none() {
                self.refuse(Some(end - begin), "the last line has no line end");
                break;
            }
            if self.taken > WORDS_BYTES_MAX {
                self.refuse(None, &format!("more than {WORDS_BYTES_MAX} bytes of words"));
                break;
            }
            if self.reading.lines.len() > LINES_MAX {
                self.refuse(None, &format!("more than {LINES_MAX} lines"));
                break;
            }
            begin = end + 1;
        }
        if !self.conditions.is_empty() {
            self.refuse(None, ".if without .endif at the end of the file");
            self.conditions.clear();
        }
        Ok(())
    }

    fn line(&mut self, file: usize, number: usize, span: Range<usize>) -> Result<(), Unknown> {
        let bytes = &self.reading.files[file].bytes[span.clone()];
        let variables = words::Variables {
            value: &|name| self.value(name, file, number),
            joins_unset: self.setting.version.is_some_and(Version::joins_unset),
        };
        let split = words::split(bytes, &variables);
        let nul = bytes.iter().position(|&byte| byte == 0);
        let (split, error) = match split {
            Ok(split) => (split, None),
            Err(error) => (words::Split::default(), Some(error)),
        };
        self.taken += split
            .words
            .iter()
            .map(|word| word.text.len())
            .sum::<usize>();
        self.reading.lines.push(Line {
            file,
            number,
            comment: split.comment.map(|at| span.start + at..span.end),
            span,
            words: split.words,
            variables: split.variables,
            is_live: self.is_live(),
            counts: false,
        });
        if let Some((column, error)) = error {
            self.refuse(Some(column), &error.to_string());
        } else if nul.is_some() {
            self.refuse(nul, "a zero byte");
        }
        self.apply()
    }

    fn is_live(&self) -> bool {
        let innermost = self.conditions.last();
        innermost.is_none_or(|condition| condition.counts)
    }

    fn value(&self, name: &str, file: usize, number: usize) -> Option<String> {
        match name {
            ".LINE" => Some(number.to_string()),
            ".FILE" => Some(self.reading.files[file].name.clone()),
            ".SECTION" => self.section.as_ref().map(|(_, name)| name.clone()),
            name => self.environment.get(name).cloned(),
        }
    }

    /// What the newest line does.
    fn apply(&mut self) -> Result<(), Unknown> {
        let Some(line) = self.reading.lines.last() else {
            return Ok(());
        };
        let (first, second) = (line.word(0).to_owned(), line.word(1).to_owned());
        let is_live = line.is_live;
        let third = line.word(2).to_owned();
        match first.as_str() {
            // A `[` begins a scope, which only says who the file is for.
            "" => return Ok(()),
            ".if" | ".elif" | ".else" | ".endif" => return self.condition(&first),
            _ if !is_live || first.starts_with('[') => return Ok(()),
            ".alert" | ".warning" | ".notice" | ".diag" if !third.is_empty() => {
                self.refuse(
                    None,
                    &format!("{first} takes one word, and {third:?} is a second"),
                );
            }
            ".alert" => self.refuse(None, &format!(".alert is reached: {second}")),
            ".warning" | ".notice" | ".diag" => {}
            text if text.starts_with('.') => {
                self.refuse(None, &format!("unknown directive {text}"));
            }
            _ => {
                if let Some(line) = self.reading.lines.last_mut() {
                    line.counts = true;
                }
                if is_section(&first) {
                    let name = if second.is_empty() { &first } else { &second };
                    self.section = Some((first.clone(), name.clone()));
                } else if self.section.is_none() {
                    self.refuse(None, &format!("{first:?} stands in no section"));
                }
                self.follow_environment();
            }
        }
        Ok(())
    }

    fn condition(&mut self, word: &str) -> Result<(), Unknown> {
        let takes_nothing = matches!(word, ".else" | ".endif");
        if takes_nothing
            && self
                .reading
                .lines
                .last()
                .is_some_and(|line| !line.word(1).is_empty())
        {
            self.refuse(None, &format!("{word} takes no argument"));
        }
        let top = self.conditions.last().copied();
        let Some(condition) = top else {
            if word == ".if" {
                let counts = self.judge()?;
                self.conditions.push(Condition {
                    counts,
                    open: !counts,
                    has_else: false,
                });
            } else {
                self.refuse(None, &format!("{word} without .if"));
            }
            return Ok(());
        };
        if matches!(word, ".elif" | ".else") && condition.has_else {
            self.refuse(None, &format!("{word} behind .else"));
            return Ok(());
        }
        let next = match word {
            ".endif" => {
                self.conditions.pop();
                return Ok(());
            }
            ".if" if self.conditions.len() == CONDITIONS_MAX => {
                self.refuse(
                    None,
                    &format!("more than {CONDITIONS_MAX} .if in each other"),
                );
                return Ok(());
            }
            ".if" => {
                let counts = condition.counts && self.judge()?;
                // Within what is left out no branch counts.
                let open = condition.counts && !counts;
                self.conditions.push(Condition {
                    counts,
                    open,
                    has_else: false,
                });
                return Ok(());
            }
            ".else" => Condition {
                counts: condition.open,
                open: false,
                has_else: true,
            },
            _ => {
                let counts = condition.open && self.judge()?;
                Condition {
                    counts,
                    open: condition.open && !counts,
                    has_else: false,
                }
            }
        };
        *self.conditions.last_mut().expect("one is open") = next;
        Ok(())
    }

    fn judge(&mut self) -> Result<bool, Unknown> {
        let Some(line) = self.reading.lines.last() else {
            return Ok(false);
        };
        let words: Vec<_> = line.words[1..]
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        let facts = Facts {
            is_set: &|name| self.environment.contains_key(name),
            version: self.setting.version,
            supposed: &self.setting.supposed,
        };
        match condition::holds(&words.join(" "), &facts) {
            Ok(holds) => Ok(holds),
            Err(ConditionError::Unknown(question)) => Err(Unknown(question)),
            Err(ConditionError::Syntax(what)) => {
                self.refuse(None, &what);
                Ok(false)
            }
        }
    }

    /// `setenv` and its like count from the next line on.
    fn follow_environment(&mut self) {
        let in_global = self
            .section
            .as_ref()
            .is_some_and(|(kind, _)| kind == "global");
        let Some(line) = self.reading.lines.last().filter(|_| in_global) else {
            return;
        };
        let names = line
            .arguments()
            .iter()
            .skip(1)
            .map(|word| word.text.clone());
        match line.word(0) {
            "setenv" if !line.word(2).is_empty() => {
                self.environment
                    .insert(line.word(1).to_owned(), line.word(2).to_owned());
            }
            "presetenv" if !line.word(2).is_empty() => {
                let (name, value) = (line.word(1).to_owned(), line.word(2).to_owned());
                self.environment.entry(name).or_insert(value);
            }
            "unsetenv" => names.for_each(|name| {
                self.environment.remove(&name);
            }),
            "resetenv" => {
                let kept: Vec<_> = names.collect();
                self.environment.retain(|name, _| kept.contains(name));
            }
            _ => {}
        }
    }

    fn refuse(&mut self, column: Option<usize>, what: &str) {
        self.reading.faults.push(Fault {
            line: self.reading.lines.len().saturating_sub(1),
            column,
            what: what.to_owned(),
        });
    }
}

/// Whether a word begins a section, in HAProxy 2.6 to 3.2.
pub(super) fn is_section(word: &str) -> bool {
    matches!(
        word,
        "global"
            | "defaults"
            | "listen"
            | "frontend"
            | "backend"
            | "peers"
            | "mailers"
            | "userlist"
            | "resolvers"
            | "cache"
            | "http-errors"
            | "fcgi-app"
            | "ring"
            | "log-forward"
            | "program"
            | "crt-store"
            | "traces"
            | "log-profile"
            | "acme"
    )
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
