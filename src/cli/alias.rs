//! The commands of old by their own names: a symbolic link to this program called
//! `set-server-state` or `get-server-state` takes their arguments.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The arguments as this program's own, when it was called by an old name:
///
/// - `get-server-state ENV [FILTER]`: `tidegate get --env ENV [FILTER]`
/// - `set-server-state ENV STATE FILTER [-z ZONE]`: `tidegate set --env ENV STATE FILTER [-z ZONE]`
pub(super) fn translated(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let Some(program) = arguments.next() else {
        return Vec::new();
    };
    let called = Path::new(&program).file_name().and_then(OsStr::to_str);
    let command = match called {
        Some("get-server-state") => "get",
        Some("set-server-state") => "set",
        Some(_) | None => return std::iter::once(program).chain(arguments).collect(),
    };
    // The name that helps and refusals show: what they say can be typed.
    let mut translated = vec!["tidegate".into(), command.into()];
    let is_flag = |argument: &OsString| argument.to_str().is_some_and(|a| a.starts_with('-'));
    let mut arguments = arguments.peekable();
    // The environment comes first; `--help` may stand in its place.
    if let Some(environment) = arguments.next_if(|argument| !is_flag(argument)) {
        translated.extend(["--env".into(), environment]);
    }
    translated.extend(arguments);
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_takes_its_own_arguments() {
        for (called, expected) in [
            (
                "/bin/get-server-state gprd cny",
                "tidegate get --env gprd cny",
            ),
            ("get-server-state gstg", "tidegate get --env gstg"),
            ("get-server-state --help", "tidegate get --help"),
            (
                "set-server-state gstg drain git-10 -z b",
                "tidegate set --env gstg drain git-10 -z b",
            ),
            (
                "tidegate set --env gprd drain a/b",
                "tidegate set --env gprd drain a/b",
            ),
            ("set-server-state", "tidegate set"),
        ] {
            let words = called.split(' ').map(OsString::from);
            let shown: Vec<_> = translated(words)
                .into_iter()
                .map(|word| word.into_string().unwrap())
                .collect();
            assert_eq!(shown.join(" "), expected);
        }
        assert!(translated([]).is_empty());
    }
}
