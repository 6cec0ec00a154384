//! Tidegate: desired state of an HAProxy fleet, held in a KV store and delivered through
//! HAProxy's own `agent-check`.
//!
//! ```text
//!  store (Consul | folder)                                                     HAProxy
//!      │  whole and light reads                                                   │ request line
//!      ▼                                                                          ▼
//!  watch ──► domain::authority ──► domain::snapshot ──► store (ArcSwap) ──► agent ──► answer line
//!            believe it?            compile it           put in force        decide, render
//!                                                             │
//!                                                             └──► http: /readyz, /metrics, /api/v1
//! ```
//!
//! [`domain`] is pure: a listing, a request and a moment go in, an answer comes out.
//!
//! ```
//! use tidegate::domain::answer::Origin;
//! use tidegate::domain::listing::{Entry, Listing};
//! use tidegate::domain::name::Name;
//! use tidegate::domain::request::Request;
//! use tidegate::domain::snapshot::Snapshot;
//!
//! let entry = |value: &'static str| Entry { value: value.into(), modify_index: 17 };
//! let entries = [
//!     ("_meta".to_owned(), entry(r#"{"schema":1,"epoch":1,"gen":1}"#)),
//!     ("canary-state".to_owned(), entry("drain")),
//! ];
//! let snapshot = Snapshot::build(&Listing { index: 17, entries: entries.into() })?;
//!
//! let request = Request::parse(b"web/cny canary node=lb-1\n")?;
//! let now = "2026-11-30T10:00:00Z".parse()?;
//! let decision = snapshot.decide(&request, "lb-1", now);
//!
//! let origin = Origin { index: snapshot.index, replica: Name::parse("a")? };
//! assert_eq!(decision.answer.to_line(&origin), b"up drain # i=17 r=a\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod agent;
pub mod beliefs;
pub mod causes;
pub mod cli;
pub mod clock;
pub mod config;
pub mod delivery;
pub mod disk;
pub mod domain;
pub mod fleet;
pub mod haproxy;
pub mod http;
pub mod http_client;
pub mod kv;
pub mod metrics;
pub mod peers;
pub mod pem;
pub mod progress;
pub mod secret_file;
pub mod serve;
pub mod store;
pub mod telemetry;
pub mod watch;
