//! Any bytes as HAProxy's files: no panic, every line stands where it says, and the same bytes are
//! judged the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::domain::haproxy::lint::{Evidence, Readings};
use tidegate_fuzz::domain::haproxy::reading::{File, Reading, Setting};
use tidegate_fuzz::domain::haproxy::version::Version;

/// What the files are told apart by: a byte that no configuration holds.
const SEPARATOR: u8 = 0xff;

fuzz_target!(|bytes: &[u8]| {
    let file = |bytes: &[u8]| File {
        name: "haproxy.cfg".to_owned(),
        bytes: bytes.to_vec(),
    };
    let files: Vec<File> = bytes.split(|&byte| byte == SEPARATOR).map(file).collect();
    for version in [None, Some("2.6.12"), Some("2.8.25")] {
        let version: Option<Version> = version.map(|text| text.parse().expect("a version"));
        let setting = Setting {
            environment: [("SET".to_owned(), "a  b".to_owned())].into(),
            version,
            ..Setting::default()
        };
        let Ok(readings) = Readings::of(&files, &setting) else {
            continue;
        };
        for (reading, _) in &readings.all {
            check_places(reading);
        }
        let evidence = Evidence {
            version,
            ..Evidence::default()
        };
        let report = readings.judge(&evidence);
        let again = Readings::of(&files, &setting)
            .expect("read once")
            .judge(&evidence);
        assert_eq!(report, again);
        let _ = report.to_string();
    }
});

/// The lines of a file make up all of it.
fn check_places(reading: &Reading<'_>) {
    for (at, file) in reading.files.iter().enumerate() {
        let lines = reading.lines.iter().filter(|line| line.file == at);
        let mut bytes = Vec::new();
        for line in lines {
            for word in &line.words {
                assert!(word.span.end <= line.span.len());
            }
            bytes.extend_from_slice(reading.bytes(line));
            bytes.push(b'\n');
        }
        bytes.truncate(file.bytes.len());
        assert_eq!(bytes, file.bytes);
    }
}
