//! `show stat`: CSV whose columns are found by their names, as 2.6 and 2.8 differ in them.
//!
//! A field may be quoted, and then hold commas, quotes written twice, and line ends (2.6 puts one
//! into `last_agt`).

use jiff::Timestamp;
use thiserror::Error;

use crate::domain::name::{Name, ServerId};
use crate::domain::observed::{Class, Exactness, Observed, ObservedBackend, ObservedNode, Part};

/// The most rows of one process: a large site has 60.
pub const ROWS_MAX: usize = 65_536;
/// The most columns: 2.8 has 130.
pub const COLUMNS_MAX: usize = 1_024;

/// What stands before the names of the columns.
const HEAD: &str = "# ";
/// How every answer of a stats socket ends.
const END: &str = "\n\n";
/// Column `type`: 0 is a frontend, 3 a listener.
const BACKEND: &str = "1";
const SERVER: &str = "2";

/// Why bytes are no `show stat`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StatsError {
    /// Another text: what it begins with.
    #[error("this is no `show stat` of HAProxy: it begins with {0:?}")]
    Head(String),
    /// A column that is read is not there.
    #[error("`show stat` has no column {0}")]
    Column(&'static str),
    /// The empty line at its end is not there.
    #[error("`show stat` is torn: its last line is missing")]
    Cut,
    /// A row of another length than the head.
    #[error("`show stat` is torn: row {row} has {fields} of {columns} fields")]
    Torn {
        /// The row, from 1.
        row: usize,
        /// How many fields it has.
        fields: usize,
        /// How many it should have.
        columns: usize,
    },
    /// More rows than [`ROWS_MAX`], or columns than [`COLUMNS_MAX`].
    #[error("`show stat` has more than {ROWS_MAX} rows or {COLUMNS_MAX} columns")]
    TooLarge,
}

/// Where the columns are.
struct Columns {
    proxy: usize,
    server: usize,
    kind: usize,
    status: usize,
    weight: usize,
    sessions: usize,
    active: usize,
    backup: usize,
    /// Not there before 1.7.
    last_agt: Option<usize>,
}

/// Reads what a process said at `at`. Names that are none of ours are left out: nobody can ask for
/// them.
///
/// # Errors
/// See [`StatsError`]. Nothing of such bytes is used.
pub fn read(bytes: &[u8], at: Timestamp) -> Result<ObservedNode, StatsError> {
    let text = String::from_utf8_lossy(bytes);
    let Some(text) = text.trim_start().strip_prefix(HEAD) else {
        let begin = text.trim().chars().take(60).collect();
        return Err(StatsError::Head(begin));
    };
    if !text.ends_with(END) {
        return Err(StatsError::Cut);
    }
    let mut records = Records(text);
    let head = records.next().unwrap_or_default();
    if head.len() > COLUMNS_MAX {
        return Err(StatsError::TooLarge);
    }
    let columns = Columns::find(&head)?;
    let mut node = ObservedNode::default();
    for (row, fields) in records.filter(|fields| *fields != [""]).enumerate() {
        if row >= ROWS_MAX {
            return Err(StatsError::TooLarge);
        }
        if fields.len() != head.len() {
            return Err(StatsError::Torn {
                row: row + 1,
                fields: fields.len(),
                columns: head.len(),
            });
        }
        columns.take(&fields, at, &mut node);
    }
    Ok(node)
}

impl Columns {
    fn find(head: &[String]) -> Result<Self, StatsError> {
        let at = |name: &'static str| head.iter().position(|column| column == name);
        let find = |name| at(name).ok_or(StatsError::Column(name));
        Ok(Self {
            proxy: find("pxname")?,
            server: find("svname")?,
            kind: find("type")?,
            status: find("status")?,
            weight: find("weight")?,
            sessions: find("scur")?,
            active: find("act")?,
            backup: find("bck")?,
            last_agt: at("last_agt"),
        })
    }

    /// `fields` are as many as the head has.
    fn take(&self, fields: &[String], at: Timestamp, node: &mut ObservedNode) {
        let proxy = &fields[self.proxy];
        match fields[self.kind].as_str() {
            BACKEND => {
                if let Ok(name) = Name::parse(proxy) {
                    let up = Class::of(&fields[self.status]).is_up();
                    node.backends.insert(name, ObservedBackend { up, at });
                }
            }
            SERVER => {
                if let Ok(id) = ServerId::parse(&format!("{proxy}/{}", fields[self.server])) {
                    node.servers.insert(id, self.server(fields, at));
                }
            }
            _ => {}
        }
    }

    fn server(&self, fields: &[String], at: Timestamp) -> Observed {
        let status = fields[self.status].clone();
        let last_agt = self.last_agt.map(|column| fields[column].clone());
        Observed {
            class: Class::of(&status),
            status,
            exactness: Exactness::Exact,
            weight: fields[self.weight].parse().ok(),
            part: match (&*fields[self.active], &*fields[self.backup]) {
                ("1", "0") => Some(Part::Active),
                ("0", "1") => Some(Part::Backup),
                _ => None,
            },
            sessions: fields[self.sessions].parse().ok(),
            last_agt: last_agt.filter(|text| !text.is_empty()),
            at,
        }
    }
}

/// The rest of a CSV text; gives one record after the other.
struct Records<'a>(&'a str);

impl Iterator for Records<'_> {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        if self.0.is_empty() {
            return None;
        }
        let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
        let mut characters = self.0.char_indices().peekable();
        let mut end = self.0.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' if quoted && characters.next_if(|(_, next)| *next == '"').is_some() => {
                    field.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(std::mem::take(&mut field)),
                '\n' if !quoted => {
                    end = at + 1;
                    break;
                }
                other => field.push(other),
            }
        }
        self.0 = &self.0[end..];
        if field.ends_with('\r') {
            field.pop();
        }
        fields.push(field);
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = "# pxname,svname,scur,status,weight,act,bck,type,last_agt,\n";

    fn at() -> Timestamp {
        "2026-11-30T10:00:00Z".parse().unwrap()
    }

    fn rows(text: &str) -> Result<ObservedNode, StatsError> {
        read(format!("{HEADER}{text}\n").as_bytes(), at())
    }

    #[test]
    fn servers_and_backends_are_read_by_the_names_of_the_columns() {
        let node = rows(
            "in,FRONTEND,0,OPEN,,,,0,,\n\
             web,a,3,DRAIN (agent),40,1,0,2,\"via agent : up (i=7, \"\"x\"\"\nr=a)\",\n\
             web,b,0,no check,100,0,1,2,,\r\n\
             web,BACKEND,3,DOWN,0,0,0,1,,\n\
             we b,c,0,UP,1,1,0,2,,\n",
        )
        .unwrap();
        let ids: Vec<_> = node.servers.keys().map(ServerId::as_str).collect();
        assert_eq!(ids, ["web/a", "web/b"]);
        let (a, b) = (&node.servers["web/a"], &node.servers["web/b"]);
        assert_eq!(
            (a.status.as_str(), a.class),
            ("DRAIN (agent)", Class::Drain)
        );
        assert_eq!(
            (a.weight, a.sessions, a.part),
            (Some(40), Some(3), Some(Part::Active))
        );
        let agent = a.last_agt.as_deref();
        assert_eq!(agent, Some("via agent : up (i=7, \"x\"\nr=a)"));
        assert_eq!((b.class, b.part), (Class::NoCheck, Some(Part::Backup)));
        assert_eq!(b.last_agt, None);
        assert!(!node.backends["web"].up);
        assert_eq!(a.at, at());
    }

    #[test]
    fn what_is_no_show_stat_is_refused() {
        for (text, expected) in [
            ("", "begins with \"\""),
            ("Permission denied\n", "begins with \"Permission denied\""),
            ("# pxname,svname\n\n", "no column type"),
            (HEADER, "its last line is missing"),
        ] {
            let error = read(text.as_bytes(), at()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let torn = StatsError::Torn {
            row: 2,
            fields: 4,
            columns: 10,
        };
        assert_eq!(rows("web,a,0,UP,1,1,0,2,,\nweb,b,0,U\n"), Err(torn));
        let open_quote = rows("web,a,0,UP,1,1,0,2,\"via agent\n\n");
        assert!(matches!(open_quote, Err(StatsError::Torn { .. })));
        let wide = format!("# {}\n\n", "x,".repeat(COLUMNS_MAX + 1));
        assert_eq!(read(wide.as_bytes(), at()), Err(StatsError::TooLarge));
    }

    fn quoted(field: &str) -> String {
        format!("\"{}\"", field.replace('"', "\"\""))
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes, at());
            let _ = read(&[HEADER.as_bytes(), &bytes, b"\n\n"].concat(), at());
        }

        #[test]
        fn any_bytes_in_the_place_of_others_are_read_or_refused(
            place in 0_usize..200,
            bytes in proptest::collection::vec(any::<u8>(), 0..4),
        ) {
            let mut text = format!("{HEADER}web,a,3,DRAIN (agent),40,1,0,2,\"via, agent\",\nweb,b,0,UP,1,0,1,2,,\n\n").into_bytes();
            let place = place.min(text.len());
            let end = (place + bytes.len()).min(text.len());
            text.splice(place..end, bytes);
            let _ = read(&text, at());
        }

        #[test]
        fn whatever_the_agent_said_reads_back(said in "[^\r]{0,60}", status in "[^\r]{1,20}") {
            let node = rows(&format!("web,a,0,{},1,1,0,2,{},\n", quoted(&status), quoted(&said))).unwrap();
            let row = &node.servers["web/a"];
            prop_assert_eq!(&row.status, &status);
            prop_assert_eq!(row.last_agt.as_deref().unwrap_or_default(), said);
        }

        #[test]
        fn a_text_that_is_cut_anywhere_is_refused(cut in 0_usize..200) {
            let text = format!("{HEADER}web,a,0,UP,1,1,0,2,said,\nweb,b,0,UP,1,0,1,2,\"a,b\",\n\n");
            let cut = cut.min(text.len() - 1);
            prop_assert!(read(&text.as_bytes()[..cut], at()).is_err());
        }
    }
}
