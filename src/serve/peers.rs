//! The other replicas: who they are, the secret that they share, and the questions to them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use arc_swap::ArcSwapOption;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tracing::{error, info, warn};

use crate::beliefs::Beliefs;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::domain::authority::Times;
use crate::domain::name::Name;
use crate::domain::peer_token::PeerToken;
use crate::domain::sentinel::SCHEMA;
use crate::domain::word::Identity;
use crate::fleet::Gatherer;
use crate::metrics::PeerCounters;
use crate::peers::{Asker, FleetAsk, HttpAsk, Parts, Peer};

/// The secret, as it was read last.
pub(super) type SharedToken = Arc<ArcSwapOption<PeerToken>>;

/// A larger file is no token's.
const FILE_BYTES_MAX: u64 = 4_096;

/// The slots of the others.
pub(super) fn slots(config: &Config) -> impl Iterator<Item = Name> {
    config.others().map(|peer| peer.slot.clone())
}

/// Who this replica is, for its peers.
pub(super) fn identity(config: &Config) -> Identity {
    Identity {
        prefix: config.prefix.clone(),
        schema: SCHEMA,
        slot: config.slot.clone(),
        digest: config.digest(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Reads the secret, if there is one.
pub(super) fn token(config: &Config) -> anyhow::Result<SharedToken> {
    let token = config.peers_token_file.as_deref().map(read_token);
    let token = token.transpose().context("peers_token_file")?;
    Ok(Arc::new(ArcSwapOption::from(token.map(Arc::new))))
}

/// Who asks the others, ready to run.
pub(super) fn asker(
    config: &Config,
    identity: Arc<Identity>,
    beliefs: Arc<Beliefs>,
    token: SharedToken,
    counters: Arc<PeerCounters>,
) -> anyhow::Result<Asker<HttpAsk>> {
    let times = Times::from_poll_interval(config.poll_interval);
    let ask = HttpAsk::new(identity, token, times.answer_time_max())
        .context("the peers' HTTP client cannot be made")?;
    Ok(Asker::new(Parts {
        ask,
        peers: others(config),
        times,
        beliefs,
        clock: Arc::new(SystemClock),
        counters,
        rng: StdRng::from_rng(&mut rand::rng()),
    }))
}

/// Who asks the others for their part of the fleet.
pub(super) fn gatherer(
    config: &Config,
    identity: Arc<Identity>,
    token: SharedToken,
) -> anyhow::Result<Gatherer> {
    let ask = FleetAsk::new(identity, token, others(config));
    let ask = ask.context("the peers' HTTP client cannot be made")?;
    Ok(Gatherer::new(Arc::new(ask)))
}

/// The others, and where they are asked.
fn others(config: &Config) -> Vec<Peer> {
    let peer = |peer: &crate::config::PeerAddress| Peer {
        slot: peer.slot.clone(),
        url: peer.url.clone(),
    };
    config.others().map(peer).collect()
}

/// Takes the secret and `assume_gone` of a configuration that was read anew. What is wrong keeps
/// what was in use.
pub(super) async fn reload(
    before: &Config,
    read: Result<Config, String>,
    token: &SharedToken,
    beliefs: &Beliefs,
) {
    if let Some(path) = before.peers_token_file.as_deref() {
        match read_token(path) {
            Ok(new) => {
                token.store(Some(Arc::new(new)));
                info!("the peers' token was read anew");
            }
            Err(error) => error!("the old peers' token stays in use: {error:#}"),
        }
    }
    match read {
        Ok(config) => {
            if config.digest() != before.digest() {
                warn!("peers or poll_interval changed: that takes a restart");
            }
            let gone = config.assume_gone;
            let event = beliefs.update(|authority, _| authority.assume_gone(&gone));
            event.await;
            let gone: Vec<_> = gone.iter().map(Name::as_str).collect();
            info!(assume_gone = gone.join(","), "assume_gone was read anew");
        }
        Err(errors) => error!("the old assume_gone stays in use: {errors}"),
    }
}

fn read_token(path: &Path) -> anyhow::Result<PeerToken> {
    let place = || path.display().to_string();
    let metadata = fs::metadata(path).with_context(place)?;
    anyhow::ensure!(metadata.is_file(), "{}: no regular file", place());
    let size = metadata.len();
    anyhow::ensure!(size <= FILE_BYTES_MAX, "{}: {size} bytes", place());
    let text = fs::read_to_string(path).with_context(place)?;
    if is_open_to_others(metadata.permissions().mode()) {
        warn!(
            "{}: others than its owner and group can read the token, or others than its owner write it",
            place()
        );
    }
    PeerToken::parse(&text).with_context(place)
}

/// Whether a file of this mode holds no secret. Its group may read it: that is how a service gets
/// one that it does not own (`fsGroup` of Kubernetes).
const fn is_open_to_others(mode: u32) -> bool {
    mode & 0o027 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_for_its_owner_and_may_be_read_by_its_group() {
        for (mode, open) in [
            (0o100_400, false),
            (0o100_600, false),
            (0o100_440, false),
            (0o100_640, false),
            (0o100_444, true),
            (0o100_660, true),
            (0o100_602, true),
        ] {
            assert_eq!(is_open_to_others(mode), open, "{mode:o}");
        }
    }
}
