//! What was said where: flags before variables before the file before defaults.

use std::ffi::OsString;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::errors::{ConfigError, Origin};
use super::settings::{Default, Kind, SETTINGS, Setting, find, nearest};
use super::{Flags, Sources};

/// The largest file that is read, in bytes. One with all settings and comments has 4,000.
pub const FILE_BYTES_MAX: usize = 65_536;

/// One value of one setting, as somebody wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Which setting.
    pub setting: &'static Setting,
    /// The text; of a number or a boolean in the file, its decimal form.
    pub text: String,
    /// Where it was written.
    pub origin: Origin,
}

/// Everything that was said, what counts first.
pub(super) fn gather(sources: &Sources<'_>, errors: &mut Vec<ConfigError>) -> Vec<Given> {
    let mut given = Vec::new();
    given.extend(from_flags(sources.flags));
    for setting in &SETTINGS {
        if let Some(value) = (sources.variable)(setting.variable) {
            from_variable(setting, value, &mut given, errors);
        }
    }
    if let Some(file) = &sources.file {
        let reader = FileReader {
            name: file.name,
            text: file.text,
        };
        reader.read(&mut given, errors);
    }
    given.extend(SETTINGS.iter().filter_map(|setting| {
        let text = match setting.default {
            Default::Text(text) => text.to_owned(),
            Default::Cores => sources.cores.to_string(),
            Default::Required | Default::Implied(_) => return None,
        };
        Some(Given {
            setting,
            text,
            origin: Origin::Default,
        })
    }));
    given
}

fn from_flags(flags: &Flags) -> impl Iterator<Item = Given> {
    flags.iter().map(|(setting, text)| Given {
        setting,
        text: text.to_owned(),
        origin: Origin::Flag(setting.flag),
    })
}

fn from_variable(
    setting: &'static Setting,
    value: OsString,
    given: &mut Vec<Given>,
    errors: &mut Vec<ConfigError>,
) {
    let origin = Origin::Variable(setting.variable);
    let refused = match value.into_string() {
        Ok(text) if text.is_empty() => "empty; unset the variable to use the default",
        Ok(text) => {
            given.push(Given {
                setting,
                text,
                origin,
            });
            return;
        }
        Err(_) => "not UTF-8",
    };
    errors.push(ConfigError::new(origin, setting.key, refused));
}

struct FileReader<'a> {
    name: &'a str,
    text: &'a [u8],
}

impl FileReader<'_> {
    fn read(&self, given: &mut Vec<Given>, errors: &mut Vec<ConfigError>) {
        if self.text.len() > FILE_BYTES_MAX {
            let text = format!("larger than {FILE_BYTES_MAX} bytes");
            errors.push(ConfigError::new(self.origin(0), "", text));
            return;
        }
        let text = match std::str::from_utf8(self.text) {
            Ok(text) => text,
            Err(error) => {
                let origin = self.origin(error.valid_up_to());
                errors.push(ConfigError::new(origin, "", "not UTF-8"));
                return;
            }
        };
        let (table, problems) = DeTable::parse_recoverable(text);
        for problem in &problems {
            let at = problem.span().map_or(0, |span| span.start);
            let message = problem.message().replace('\n', ", ");
            errors.push(ConfigError::new(self.origin(at), "", message));
        }
        self.table("", table.get_ref(), given, errors);
    }

    fn table(
        &self,
        above: &str,
        table: &DeTable<'_>,
        given: &mut Vec<Given>,
        errors: &mut Vec<ConfigError>,
    ) {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let name = format!("{above}{}", key.get_ref());
            let origin = self.origin(key.span().start);
            if let Some(setting) = find(&name) {
                match text_of(setting, value) {
                    Ok(text) => given.push(Given {
                        setting,
                        text,
                        origin,
                    }),
                    Err(text) => errors.push(ConfigError::new(origin, &name, text)),
                }
            } else if !is_section(&name) {
                errors.push(ConfigError::new(origin, &name, unknown(&name)));
            } else if let DeValue::Table(inner) = value.get_ref() {
                self.table(&format!("{name}."), inner, given, errors);
            } else {
                let found = value.get_ref().type_str();
                let text = format!("expected a table, found {found}");
                errors.push(ConfigError::new(origin, &name, text));
            }
        }
    }

    fn origin(&self, at: usize) -> Origin {
        let before = &self.text[..at.min(self.text.len())];
        Origin::File {
            name: self.name.to_owned(),
            line: before.split(|&byte| byte == b'\n').count(),
        }
    }
}

fn is_section(name: &str) -> bool {
    SETTINGS.iter().any(|setting| {
        setting
            .key
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

fn unknown(name: &str) -> String {
    match nearest(name) {
        Some(known) => format!("unknown; did you mean {known}?"),
        None => "unknown".to_owned(),
    }
}

/// The text of a value of the right type. Everything else is done as for a flag.
fn text_of(setting: &Setting, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    let (wanted, text) = match setting.kind {
        Kind::Count { .. } => (
            "a whole number",
            value
                .get_ref()
                .as_integer()
                .map(|number| decimal(number.as_str(), number.radix())),
        ),
        Kind::Switch => (
            "true or false",
            value.get_ref().as_bool().map(|yes| yes.to_string()),
        ),
        Kind::Text | Kind::OneOf(_) | Kind::Span { .. } => {
            ("a string", value.get_ref().as_str().map(str::to_owned))
        }
        Kind::List => ("an array of strings", list(value.get_ref())),
        Kind::Pairs => ("a table of strings", pairs(value.get_ref())),
    };
    text.ok_or_else(|| format!("expected {wanted}, found {}", value.get_ref().type_str()))
}

/// A number as decimal digits; one that fits no integer stays as it is and is refused later.
fn decimal(digits: &str, radix: u32) -> String {
    i128::from_str_radix(digits, radix).map_or_else(|_| digits.to_owned(), |n| n.to_string())
}

fn list(value: &DeValue<'_>) -> Option<String> {
    let texts = value.as_array()?.iter().map(|text| text.get_ref().as_str());
    Some(texts.collect::<Option<Vec<_>>>()?.join(","))
}

fn pairs(value: &DeValue<'_>) -> Option<String> {
    let pair = |(name, text): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        Some(format!("{}={}", name.get_ref(), text.get_ref().as_str()?))
    };
    let pairs = value.as_table()?.iter().map(pair);
    Some(pairs.collect::<Option<Vec<_>>>()?.join(","))
}
