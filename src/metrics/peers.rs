//! What is counted and shown of the other replicas. Their slots are a closed set: configured.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Counts, Shown, gauge};
use crate::clock;
use crate::domain::authority::{AuthorityName, CountedAs, Heard, Offset, PeerView};
use crate::domain::name::Name;

/// How the questions to each peer ended.
#[derive(Debug, Default)]
pub struct PeerCounters(Vec<(Name, Counts<4>)>);

const OUTCOMES: [&str; 4] = ["word", "refused", "silent", "stranger"];

impl PeerCounters {
    /// No questions yet to these.
    pub fn new(slots: impl IntoIterator<Item = Name>) -> Self {
        let peer = |slot| (slot, Counts::default());
        Self(slots.into_iter().map(peer).collect())
    }

    /// One more question to this one.
    pub fn count(&self, slot: &Name, heard: &Heard) {
        if let Some((_, counts)) = self.0.iter().find(|(known, _)| known == slot) {
            counts.add(match heard {
                Heard::Word(_) => 0,
                Heard::Refused => 1,
                Heard::Silent(_) => 2,
                Heard::Stranger(_) => 3,
            });
        }
    }
}

impl Shown {
    pub(super) fn encode_peers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_in_view(encoder)?;
        self.encode_questions(encoder)?;
        self.encode_counted(encoder)?;
        self.encode_differences(encoder)?;
        self.encode_clocks(encoder)?;
        let published = self.store.load();
        let problems = published.standing.problems(env!("CARGO_PKG_VERSION"));
        let help = "Problems of this replica and its peers, as /readyz names them";
        let name = "tidegate_replica_problems";
        gauge(encoder, name, help, problems.len() as u64)
    }

    /// How many replicas are in sight, this one counted, and how far their listings are apart.
    fn encode_in_view(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let published = self.store.load();
        let (standing, now) = (&published.standing, clock::moment());
        let peers = standing.peers().iter();
        let heard =
            |peer: &&PeerView| matches!(standing.counted_as(peer, now), CountedAs::Heard(_));
        let seen: Vec<_> = peers.filter(heard).collect();
        let help = "Replicas that are in sight, this one counted";
        let name = "tidegate_replicas_in_view";
        gauge(encoder, name, help, seen.len() as u64 + 1)?;
        let own = published.snapshot.as_ref().map(|snapshot| snapshot.index);
        let told = seen.iter().filter_map(|peer| peer.said.as_ref()?.index);
        let indexes: Vec<_> = told.chain(own).collect();
        let spread = indexes.iter().max().zip(indexes.iter().min());
        let spread = spread.map_or(0, |(newest, oldest)| newest - oldest);
        let help = "How far the indexes of the replicas in sight are apart";
        gauge(encoder, "tidegate_replica_index_spread", help, spread)
    }

    fn encode_questions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.peers.0.is_empty() {
            return Ok(());
        }
        let help = "Questions to each peer, by outcome";
        let name = "tidegate_peer_questions";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (slot, counts) in &self.peers.0 {
            for (at, outcome) in OUTCOMES.into_iter().enumerate() {
                let labels = [("peer", slot.as_str()), ("outcome", outcome)];
                let series = family.encode_family(&labels)?;
                ConstCounter::new(counts.get(at)).encode(series)?;
            }
        }
        Ok(())
    }

    fn encode_counted(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let published = self.store.load();
        let standing = &published.standing;
        if standing.peers().is_empty() {
            return Ok(());
        }
        let now = clock::moment();
        let help = "1 for what each peer is counted as, 0 for the rest";
        let name = "tidegate_peer_counted";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let heard = AuthorityName::ALL.map(CountedAs::Heard);
        let rest = [
            CountedAs::Dead,
            CountedAs::OutOfSight,
            CountedAs::Stranger,
            CountedAs::AssumedGone,
        ];
        for peer in standing.peers().iter() {
            let counted = standing.counted_as(peer, now);
            for possible in heard.iter().chain(&rest) {
                let word = possible.as_str().replace(' ', "-");
                let labels = [("peer", peer.slot.as_str()), ("as", word.as_str())];
                let series = family.encode_family(&labels)?;
                ConstGauge::new(u64::from(*possible == counted)).encode(series)?;
            }
        }
        Ok(())
    }

    /// What replicas must share, or at least soon: the alert of `deploy/prometheus` reads it.
    fn encode_differences(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let published = self.store.load();
        let standing = &published.standing;
        if standing.peers().is_empty() {
            return Ok(());
        }
        let own = env!("CARGO_PKG_VERSION");
        let help =
            "1 where a peer's last word shows another version or identity than this replica's";
        let name = "tidegate_peer_differs";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for peer in standing.peers().iter() {
            for (what, differs) in [
                ("version", peer.other_version(own).is_some()),
                ("identity", peer.stranger),
            ] {
                let labels = [("peer", peer.slot.as_str()), ("what", what)];
                let series = family.encode_family(&labels)?;
                ConstGauge::new(u64::from(differs)).encode(series)?;
            }
        }
        Ok(())
    }

    fn encode_clocks(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let published = self.store.load();
        let standing = &published.standing;
        let peers = standing.peers().iter();
        let peers = peers.filter_map(|peer| Some((peer, peer.offset?)));
        let mut measured: Vec<(Vec<(&str, &str)>, Offset)> = Vec::new();
        // A peer may be called `source`.
        measured.extend(standing.source_clock().map(|o| (vec![("to", "source")], o)));
        measured.extend(peers.map(|(peer, offset)| {
            let labels = vec![("to", "peer"), ("peer", peer.slot.as_str())];
            (labels, offset)
        }));
        if measured.is_empty() {
            return Ok(());
        }
        let help = "How far other wall clocks are ahead of this machine's, in seconds";
        let name = "tidegate_clock_offset_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, offset) in &measured {
            let seconds = std::time::Duration::from_millis(offset.0.unsigned_abs()).as_secs_f64();
            let signed = if offset.0 < 0 { -seconds } else { seconds };
            ConstGauge::new(signed).encode(family.encode_family(labels)?)?;
        }
        Ok(())
    }
}
