//! What is in force: the authority, the listing, its problems and ramps.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Family, Shown, desired, gauge, ramps, rows};
use crate::clock;
use crate::domain::authority::{AuthorityName, HeldKind};
use crate::domain::snapshot::{ProblemKind, Snapshot};

/// The bits of a digest that a float of 64 bits holds exactly.
const DIGEST_BITS: u64 = (1 << 48) - 1;

impl Shown {
    pub(super) fn encode_authority(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let published = self.store.load();
        let (standing, now) = (&published.standing, clock::moment());
        let authority = standing.name(now);
        let names = AuthorityName::ALL.map(AuthorityName::as_str);
        let is = |at: usize| u64::from(AuthorityName::ALL[at] == authority);
        let help = "1 for the authority that this replica has, 0 for the others";
        Family {
            name: "tidegate_authority",
            help,
            label: "authority",
            values: &names,
        }
        .gauges(encoder, is)?;
        let kind = standing.held_kind();
        let kinds = HeldKind::ALL.map(HeldKind::as_str);
        let is = |at: usize| u64::from(Some(HeldKind::ALL[at]) == kind);
        let help = "1 for what the source is not trusted for, 0 for the rest";
        Family {
            name: "tidegate_held",
            help,
            label: "reason",
            values: &kinds,
        }
        .gauges(encoder, is)?;
        let Some(age) = standing.age(now) else {
            return Ok(());
        };
        let help = "Time since the source last confirmed the listing, in seconds";
        let name = "tidegate_confirmation_age_seconds";
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(age.as_secs_f64()).encode(metric)
    }

    pub(super) fn encode_listing(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let published = self.store.load();
        let memory = published.memory.as_ref().map(|(_, memory)| memory);
        if let Some(listing) = memory.and_then(|memory| memory.listing.as_ref()) {
            let help = "Hash of what the listing holds: replicas at one index have the same";
            let digest = listing.digest() & DIGEST_BITS;
            gauge(encoder, "tidegate_listing_digest", help, digest)?;
        }
        let Some(snapshot) = &published.snapshot else {
            return Ok(());
        };
        let help = "Index of the listing in force";
        gauge(encoder, "tidegate_listing_index", help, snapshot.index)?;
        let generation = snapshot.generation;
        let help = "Generation of the listing in force";
        let name = "tidegate_listing_generation";
        gauge(encoder, name, help, generation.r#gen)?;
        let help = "Directives in force";
        let directives = snapshot.placed().count() as u64;
        gauge(encoder, "tidegate_directives", help, directives)?;
        desired::encode(encoder, snapshot, clock::now())?;
        rows::encode(encoder, snapshot, clock::now())?;
        encode_problems(snapshot, encoder)?;
        ramps::encode(snapshot, clock::now(), encoder)
    }
}

fn encode_problems(snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let problems = snapshot.problems_at(clock::now());
    let kinds = ProblemKind::ALL.map(ProblemKind::as_str);
    let of = |at: usize| {
        let of = problems.iter();
        let of = of.filter(|problem| problem.kind == ProblemKind::ALL[at]);
        of.count() as u64
    };
    let help = "Problems of single keys, by kind";
    Family {
        name: "tidegate_problems",
        help,
        label: "kind",
        values: &kinds,
    }
    .gauges(encoder, of)
}
