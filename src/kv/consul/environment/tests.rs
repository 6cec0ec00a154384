use super::*;
use proptest::prelude::*;

fn read(variables: &[(&str, &str)]) -> Result<ConsulSettings, SettingErrors> {
    ConsulSettings::from_lookup(|name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn an_address_is_read_with_and_without_a_scheme() {
    for (text, ssl, expected) in [
        ("", "", "http://127.0.0.1:8500"),
        ("", "true", "https://127.0.0.1:8500"),
        ("127.0.0.1:8500", "", "http://127.0.0.1:8500"),
        ("consul:8500", "", "http://consul:8500"),
        ("consul:8501", "1", "https://consul:8501"),
        ("http://consul:8501", "true", "https://consul:8501"),
        ("https://consul:8501", "false", "https://consul:8501"),
        ("https://proxy/consul/", "", "https://proxy/consul"),
        ("[::1]:8500", "", "http://[::1]:8500"),
        ("unix:///run/consul.sock", "", "unix:///run/consul.sock"),
    ] {
        let settings = read(&[("CONSUL_HTTP_ADDR", text), ("CONSUL_HTTP_SSL", ssl)]);
        let address = settings.map(|s| s.address.to_string());
        assert_eq!(address, Ok(expected.to_owned()), "{text:?} {ssl:?}");
    }
}

#[test]
fn an_address_that_cannot_be_used_is_refused_without_repeating_a_password() {
    for bad in [
        "ftp://consul",
        "unix://consul.sock",
        "http://",
        "http://:8500",
        "consul:port",
        "http://user:hunter2@consul:8500",
        "consul:8500?token=hunter2",
    ] {
        let errors = read(&[("CONSUL_HTTP_ADDR", bad)]).unwrap_err();
        assert_eq!(errors.0.len(), 1, "{bad}");
        assert_eq!(errors.0[0].variable, "CONSUL_HTTP_ADDR");
        assert!(!errors.to_string().contains("hunter2"), "{errors}");
    }
}

#[test]
fn all_errors_are_told_at_once_each_with_its_variable() {
    let errors = read(&[
        ("CONSUL_HTTP_ADDR", "ftp://consul"),
        ("CONSUL_HTTP_SSL", "maybe"),
        ("CONSUL_HTTP_SSL_VERIFY", "maybe"),
        ("CONSUL_TLS_SERVER_NAME", "10.0.0.1"),
        ("CONSUL_CLIENT_CERT", "/nowhere/cert.pem"),
        ("CONSUL_CACERT", "/nowhere/ca.pem"),
        ("CONSUL_HTTP_TOKEN_FILE", "/nowhere/token"),
    ])
    .unwrap_err();
    let mut variables: Vec<_> = errors.0.iter().map(|e| e.variable).collect();
    variables.sort_unstable();
    assert_eq!(
        variables,
        [
            "CONSUL_CACERT",
            "CONSUL_CLIENT_KEY",
            "CONSUL_HTTP_ADDR",
            "CONSUL_HTTP_SSL",
            "CONSUL_HTTP_SSL_VERIFY",
            "CONSUL_HTTP_TOKEN_FILE",
            "CONSUL_TLS_SERVER_NAME",
        ]
    );
    assert_eq!(errors.to_string().lines().count(), 7);
}

#[test]
fn a_token_is_never_shown() {
    let settings = read(&[
        ("CONSUL_HTTP_TOKEN", "hunter2-hunter2"),
        ("CONSUL_HTTP_AUTH", "me:hunter2"),
    ])
    .unwrap();
    assert_eq!(
        settings.token,
        TokenSource::Given(Secret::new("hunter2-hunter2"))
    );
    let (user, password) = settings.basic_auth.clone().unwrap();
    assert_eq!((user.as_str(), password.expose()), ("me", "hunter2"));
    assert!(!format!("{settings:?}").contains("hunter2"));
    let error = read(&[("CONSUL_HTTP_TOKEN", "hunter2\n")]).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert_eq!(error.0[0].variable, "CONSUL_HTTP_TOKEN");
}

#[test]
fn a_token_file_goes_first_is_trimmed_and_must_hold_something() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let variables = [
        ("CONSUL_HTTP_TOKEN", "other"),
        ("CONSUL_HTTP_TOKEN_FILE", path.to_str().unwrap()),
    ];
    std::fs::write(&path, " secret\n").unwrap();
    let settings = read(&variables).unwrap();
    let loaded = credentials::load(&settings).unwrap();
    assert_eq!(loaded.token.unwrap().as_bytes(), b"secret");
    std::fs::write(&path, " \n").unwrap();
    let error = read(&variables).unwrap_err();
    assert_eq!(error.0[0].variable, "CONSUL_HTTP_TOKEN_FILE");
    assert!(error.to_string().contains("empty"), "{error}");
}

proptest! {
    #[test]
    fn any_values_are_read_or_refused(address in ".{0,30}", flag in ".{0,6}", token in "(hidden-)?.{0,9}", auth in ".{0,9}") {
        let variables = [
            ("CONSUL_HTTP_ADDR", address.as_str()),
            ("CONSUL_HTTP_SSL", &flag),
            ("CONSUL_HTTP_TOKEN", &token),
            ("CONSUL_HTTP_AUTH", &auth),
            ("CONSUL_TLS_SERVER_NAME", &address),
            ("CONSUL_NAMESPACE", &flag),
        ];
        if let Err(errors) = read(&variables) {
            prop_assert!(errors.0.iter().all(|e| e.variable.starts_with("CONSUL_")));
            // A secret stays one, also in an error about it. Any other text may stand, as it is or
            // escaped, in what is no secret.
            prop_assert!(!errors.to_string().contains("hidden-"));
        }
    }
}
