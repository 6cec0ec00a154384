//! A collector of traces: OTLP over gRPC, read by OpenTelemetry's own definitions. It keeps every
//! span that it is sent, and ends with its connections when it is killed.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::runtime::Runtime;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

use super::certificates::Certificates;
use super::consul::loopback;
use super::ports::Port;
use super::wait::{check, eventually};

/// A span as it was sent, and who sent it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// `service.name`, and `service.instance.id` where there is one.
    pub(crate) service: String,
    pub(crate) instance: String,
    pub(crate) span: Span,
    about: Vec<KeyValue>,
}

pub(crate) struct Collector {
    kept: Kept,
    port: Port,
    /// `None`: in the clear.
    tls: Option<ServerTlsConfig>,
    /// `None` between an end and the next start.
    runtime: Option<Runtime>,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Sent>>>);

impl Collector {
    pub(crate) fn start() -> Self {
        Self::start_as(None)
    }

    /// One that speaks TLS alone, and asks for a client's certificate of the same authority.
    pub(crate) fn start_with_tls(certificates: &Certificates) -> Self {
        let read = |file: PathBuf| fs::read(file).expect("it was just made");
        let own = Identity::from_pem(read(certificates.server()), read(certificates.server_key()));
        let authority = Certificate::from_pem(read(certificates.authority()));
        let tls = ServerTlsConfig::new().identity(own);
        Self::start_as(Some(tls.client_ca_root(authority)))
    }

    fn start_as(tls: Option<ServerTlsConfig>) -> Self {
        let mut collector = Self {
            kept: Kept::default(),
            port: Port::reserve(loopback(1)),
            tls,
            runtime: None,
        };
        collector.start_again();
        collector
    }

    /// The same port, and what it had kept before.
    pub(crate) fn start_again(&mut self) {
        let runtime = Runtime::new().expect("a runtime can be made");
        let entered = runtime.enter();
        let incoming = TcpIncoming::bind(self.address()).expect("the port is reserved");
        let service = TraceServiceServer::new(self.kept.clone());
        let mut server = Server::builder();
        if let Some(tls) = &self.tls {
            let secured = server.tls_config(tls.clone());
            server = secured.expect("the certificates are of one authority");
        }
        let server = server.add_service(service);
        runtime.spawn(server.serve_with_incoming(incoming));
        drop(entered);
        self.runtime = Some(runtime);
    }

    /// Its listener and all its connections go at once.
    pub(crate) fn kill(&mut self) {
        let runtime = self.runtime.take().expect("it runs");
        runtime.shutdown_timeout(Duration::from_secs(1));
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(loopback(1), self.port.number())
    }

    /// The variables by which programs find it; they send what they have within 100 ms.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let mut all = environment(self.address());
        if self.tls.is_some() {
            let address = format!("https://{}", self.address());
            all.push(("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), address));
        }
        all
    }

    /// All spans of this name, in the order in which they came.
    pub(crate) fn named(&self, name: &str) -> Vec<Sent> {
        let all = self.all();
        all.into_iter()
            .filter(|sent| sent.span.name == name)
            .collect()
    }

    pub(crate) fn all(&self) -> Vec<Sent> {
        self.kept.0.lock().expect("no holder panics").clone()
    }

    /// Waits until so many spans of this name have come.
    pub(crate) fn await_named(&self, name: &str, count: usize, limit: Duration) -> Vec<Sent> {
        eventually(&format!("{count} spans {name}"), limit, || {
            let named = self.named(name);
            check(named.len() >= count, || {
                let all = self.all();
                let seen: Vec<_> = all.iter().map(|sent| &sent.span.name).collect();
                format!("{seen:?}")
            })?;
            Ok(named)
        })
    }
}

/// The variables that name a collector.
pub(crate) fn environment(address: SocketAddr) -> Vec<(String, String)> {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")),
        ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

impl Sent {
    pub(crate) fn attribute(&self, key: &str) -> String {
        attribute(&self.span.attributes, key)
    }

    /// An attribute of who sent it.
    pub(crate) fn resource(&self, key: &str) -> String {
        attribute(&self.about, key)
    }

    /// When it began and ended, in nanoseconds of Unix time.
    pub(crate) fn times(&self) -> (u64, u64) {
        (self.span.start_time_unix_nano, self.span.end_time_unix_nano)
    }

    /// Whether this one, and no other, is what it is linked to.
    pub(crate) fn is_linked_to(&self, other: &Self) -> bool {
        let links = &self.span.links;
        let own = |span: &Span| (span.trace_id.clone(), span.span_id.clone());
        let linked = |link: &opentelemetry_proto::tonic::trace::v1::span::Link| {
            (link.trace_id.clone(), link.span_id.clone()) == own(&other.span)
        };
        links.iter().any(linked)
    }
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.0.lock().expect("no holder panics");
        for resource in request.into_inner().resource_spans {
            let about = resource.resource.unwrap_or_default().attributes;
            let spans = resource
                .scope_spans
                .into_iter()
                .flat_map(|scope| scope.spans);
            kept.extend(spans.map(|span| Sent {
                service: attribute(&about, "service.name"),
                instance: attribute(&about, "service.instance.id"),
                span,
                about: about.clone(),
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attribute(all: &[KeyValue], key: &str) -> String {
    let found = all.iter().find(|attribute| attribute.key == key);
    let value = found.and_then(|attribute| attribute.value.clone()?.value);
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(_) | None => String::new(),
    }
}
