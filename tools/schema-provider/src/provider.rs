//! The gRPC service `tfplugin6.Provider`: schemas and plans; applying and reading are refused.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes};
use prost::Message;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};

use crate::plan;
use crate::schema::Schemas;
use crate::wire::{ApplyResponse, Diagnostic, PlanRequest, PlanResponse, ReadDataResponse};

/// One provider, as Terraform calls it.
#[derive(Clone)]
pub(crate) struct Provider {
    schemas: Arc<Schemas>,
}

impl Provider {
    pub(crate) fn new(schemas: Schemas) -> Self {
        Self {
            schemas: Arc::new(schemas),
        }
    }

    /// One call. Terraform itself holds configurations against the schemas; a validation here has
    /// nothing to add, and its answer is empty.
    fn answer(&self, method: &str, request: Bytes) -> Result<Vec<u8>, Status> {
        match method {
            "GetProviderSchema" => Ok(self.schemas.to_wire().encode_to_vec()),
            "ValidateProviderConfig"
            | "ValidateResourceConfig"
            | "ValidateDataResourceConfig"
            | "ConfigureProvider"
            | "StopProvider" => Ok(Vec::new()),
            "PlanResourceChange" => {
                let request = PlanRequest::decode(request)
                    .map_err(|error| Status::invalid_argument(error.to_string()))?;
                Ok(self.plan(&request).encode_to_vec())
            }
            "ApplyResourceChange" => Ok(ApplyResponse {
                diagnostics: vec![refusal("applies")],
            }
            .encode_to_vec()),
            "ReadDataSource" => Ok(ReadDataResponse {
                diagnostics: vec![refusal("reads")],
            }
            .encode_to_vec()),
            _ => Err(Status::unimplemented(method)),
        }
    }

    fn plan(&self, request: &PlanRequest) -> PlanResponse {
        let block = self.schemas.resources.get(&request.type_name);
        let block = block.ok_or_else(|| format!("no resource {}", request.type_name).into());
        match block.and_then(|block| plan::planned(block, request)) {
            Ok(planned) => PlanResponse {
                planned: Some(planned),
                diagnostics: Vec::new(),
            },
            Err(error) => PlanResponse {
                planned: None,
                diagnostics: vec![Diagnostic::error(error.to_string())],
            },
        }
    }
}

fn refusal(what: &str) -> Diagnostic {
    Diagnostic::error(format!(
        "the stand-in {what} nothing: it knows schemas only"
    ))
}

impl NamedService for Provider {
    const NAME: &'static str = "tfplugin6.Provider";
}

impl Service<http::Request<Body>> for Provider {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let method = path.rsplit('/').next().unwrap_or_default().to_owned();
        let call = Call {
            provider: self.clone(),
            method,
        };
        Box::pin(async move { Ok(Grpc::new(Bare).unary(call, request).await) })
    }
}

/// One method of one provider.
struct Call {
    provider: Provider,
    method: String,
}

impl UnaryService<Bytes> for Call {
    type Response = Vec<u8>;
    type Future = Ready<Result<Response<Vec<u8>>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let answer = self.provider.answer(&self.method, request.into_inner());
        ready(answer.map(Response::new))
    }
}

/// Messages as bytes: each method reads its own.
struct Bare;

impl Codec for Bare {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bare {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Bare {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
