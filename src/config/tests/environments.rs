//! The environments that there are.

use super::{LEAST, load};

#[test]
fn an_environment_is_called_by_any_of_its_names_and_stands_below_its_root() {
    let file = "environments = { gprd = 'production prod', pre = '' }\n\
                environment_roots = { pre = 'infra/pre' }\nkv = 'dir:/state'\n";
    for (flags, variables, prefix) in [
        (&[("environment", "gprd")][..], &[][..], "frontend/gprd/"),
        (&[("environment", "production")], &[], "frontend/gprd/"),
        (&[("environment", "prod")], &[], "frontend/gprd/"),
        (&[("environment", "pre")], &[], "infra/pre/pre/"),
        (
            &[("environment", "pre"), ("root", "other")],
            &[],
            "other/pre/",
        ),
        (
            &[("environment", "pre")],
            &[("TIDEGATE_ROOT", "other")],
            "other/pre/",
        ),
    ] {
        let config = load(file.as_bytes(), flags, variables).unwrap();
        assert_eq!(config.prefix.as_str(), prefix, "{flags:?} {variables:?}");
    }
    // The root of the file is what all others stand below.
    let file = format!("root = 'lb'\n{file}");
    let prefix = |name| {
        let config = load(file.as_bytes(), &[("environment", name)], &[]).unwrap();
        config.prefix.as_str().to_owned()
    };
    assert_eq!(prefix("gprd"), "lb/gprd/");
    assert_eq!(prefix("pre"), "infra/pre/pre/");
    // Without the table there are the two of old.
    let config = load(LEAST.as_bytes(), &[("environment", "staging")], &[]).unwrap();
    assert_eq!(config.environment.as_str(), "gstg");
}

#[test]
fn an_unknown_environment_is_refused_with_the_known_names() {
    for (key, text, error) in [
        (
            "environment",
            "gprdd",
            "--env: gprdd is no environment: known are gprd (production), gstg (staging); others \
             are named in the setting environments",
        ),
        (
            "environments",
            "gprd=prod,gstg=prod",
            "--environments: prod is named twice",
        ),
        (
            "environments",
            "gprd=a/b",
            "--environments: \"a/b\": a name holds '/'",
        ),
        (
            "environments",
            "gprd",
            "--environments: \"gprd\" is no pair such as gprd=production",
        ),
        (
            "environment_roots",
            "pre=x",
            "--environment-roots: pre is the name of no environment: known are gprd \
             (production), gstg (staging)",
        ),
        (
            "environment_roots",
            "gprd=",
            "--environment-roots: \"\": every segment of the path is a name, but a name is empty",
        ),
    ] {
        let found = load(LEAST.as_bytes(), &[(key, text)], &[]).unwrap_err();
        assert!(found.starts_with(error), "{found}");
    }
}
