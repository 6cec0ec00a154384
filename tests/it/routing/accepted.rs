//! The files of `deploy/haproxy` as they stand, without a word from the environment and with some.

use std::path::Path;

use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::process::Output;

fn says(version: Version, name: &str, environment: &[(&str, &str)]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/haproxy");
    Haproxy::says(version, &folder.join(name), environment)
}

#[test]
fn haproxy_accepts_each_file_in_each_zone_and_says_what_a_misspelt_zone_is() {
    for version in Version::ALL {
        for name in ["edge.cfg", "api-vip.cfg"] {
            for zone in ["b", "c", "d"] {
                let zone = format!("us-east1-{zone}");
                let output = says(version, name, &[("LB_ZONE", &zone)]);
                assert_eq!(output.code, Some(0), "{version:?} {name}: {output:?}");
            }
            let output = says(version, name, &[]);
            assert_eq!(output.code, Some(0), "{version:?} {name}: {output:?}");
        }
        let output = says(version, "edge.cfg", &[("LB_ZONE", "us-east-1-b")]);
        assert_eq!(output.code, Some(1), "{version:?}: {output:?}");
        let said = output.stdout + &output.stderr;
        assert!(said.contains("LB_ZONE is none of us-east1-b"), "{said}");
    }
}
