//! The messages of Terraform's plugin protocol 6 that are needed, by their field numbers in
//! `tfplugin6.proto`; what is left out is empty on the wire.

use std::collections::HashMap;

use prost::Message;

/// Values of `Schema.NestedBlock.NestingMode`.
pub(crate) const SINGLE: i32 = 1;
pub(crate) const LIST: i32 = 2;
pub(crate) const SET: i32 = 3;

/// `Diagnostic.Severity`.
const ERROR: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Schemas {
    #[prost(message, optional, tag = "1")]
    pub(crate) provider: Option<Schema>,
    #[prost(map = "string, message", tag = "2")]
    pub(crate) resources: HashMap<String, Schema>,
    #[prost(map = "string, message", tag = "3")]
    pub(crate) data: HashMap<String, Schema>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Schema {
    #[prost(message, optional, tag = "2")]
    pub(crate) block: Option<Block>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Block {
    #[prost(message, repeated, tag = "2")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) blocks: Vec<NestedBlock>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) kind: Vec<u8>,
    #[prost(bool, tag = "4")]
    pub(crate) required: bool,
    #[prost(bool, tag = "5")]
    pub(crate) optional: bool,
    #[prost(bool, tag = "6")]
    pub(crate) computed: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NestedBlock {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) block: Option<Block>,
    #[prost(int32, tag = "3")]
    pub(crate) mode: i32,
    #[prost(int64, tag = "4")]
    pub(crate) min_items: i64,
    #[prost(int64, tag = "5")]
    pub(crate) max_items: i64,
}

/// A value in `MessagePack`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DynamicValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) msgpack: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Diagnostic {
    #[prost(int32, tag = "1")]
    severity: i32,
    #[prost(string, tag = "2")]
    summary: String,
}

impl Diagnostic {
    pub(crate) fn error(summary: impl Into<String>) -> Self {
        Self {
            severity: ERROR,
            summary: summary.into(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlanRequest {
    #[prost(string, tag = "1")]
    pub(crate) type_name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) prior: Option<DynamicValue>,
    #[prost(message, optional, tag = "3")]
    pub(crate) proposed: Option<DynamicValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlanResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) planned: Option<DynamicValue>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// `ApplyResourceChange.Response`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ApplyResponse {
    #[prost(message, repeated, tag = "3")]
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// `ReadDataSource.Response`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReadDataResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) diagnostics: Vec<Diagnostic>,
}
