//! Every faulty file of the corpus before a real HAProxy: some two hundred starts of it.

use crate::harness::haproxy::Version;
use crate::lint::corpus::check_haproxy;
use crate::render::files::check_faulty_files;

/// The everyday loop asks 2.8.
#[test]
fn haproxy_2_6_accepts_the_faulty_files() {
    check_haproxy(Version::V26);
}

#[test]
fn faulty_files_are_refused_or_become_files_that_haproxy_accepts_when_they_are_rendered() {
    check_faulty_files();
}
