//! Serves the schemas of Terraform providers, and nothing else: see README.md.
//!
//! `schema-provider FOLDER SCHEMA.json...` listens on a unix socket per schema below FOLDER, prints
//! the value of `TF_REATTACH_PROVIDERS` in one line, and serves until SIGTERM.

#![forbid(unsafe_code)]

mod plan;
mod provider;
mod schema;
mod wire;

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, json};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use provider::Provider;
use schema::Schemas;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [folder, schemas @ ..] = &arguments[..] else {
        eprintln!("usage: schema-provider FOLDER SCHEMA.json...");
        return ExitCode::from(2);
    };
    match serve(Path::new(folder), schemas).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("schema-provider: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(folder: &Path, files: &[String]) -> Fallible<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut reattach = Map::new();
    for file in files {
        let schemas = Schemas::read(Path::new(file))?;
        let socket = folder.join(format!("{}.sock", schemas.provider));
        let listener = UnixListener::bind(&socket)
            .map_err(|error| format!("cannot listen on {}: {error}", socket.display()))?;
        reattach.insert(
            format!("registry.terraform.io/hashicorp/{}", schemas.provider),
            json!({
                "Protocol": "grpc", "ProtocolVersion": 6, "Pid": std::process::id(), "Test": true,
                "Addr": { "Network": "unix", "String": socket },
            }),
        );
        let server = Server::builder().add_service(Provider::new(schemas));
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
    }
    println!("{}", serde_json::Value::Object(reattach));
    terminated.recv().await;
    Ok(())
}
