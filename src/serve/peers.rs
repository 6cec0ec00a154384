//! The other replicas: who they are, the secret that they share, and the questions to them.

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
use crate::domain::sentinel::SCHEMA;
use crate::domain::token::Token;
use crate::domain::word::Identity;
use crate::fleet::Gatherer;
use crate::http_client::{self, Authority};
use crate::metrics::PeerCounters;
use crate::peers::{Asker, FleetAsk, HttpAsk, Parts, Peer};
use crate::secret_file;

/// The secret, as it was read last.
pub(super) type SharedToken = Arc<ArcSwapOption<Token>>;

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
pub(super) fn token(config: &Config) -> anyhow::Result<Option<Token>> {
    let token = config.peers_token_file.as_deref().map(secret_file::token);
    token.transpose().context("peers_token_file")
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
    let authorities = authorities(config)?;
    let ask = HttpAsk::new(identity, token, authorities, times.answer_time_max())
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
    let ask = FleetAsk::new(identity, token, authorities(config)?, others(config));
    let ask = ask.context("the peers' HTTP client cannot be made")?;
    Ok(Gatherer::new(Arc::new(ask)))
}

/// By whom replicas at `https://` are known.
fn authorities(config: &Config) -> anyhow::Result<Vec<Authority>> {
    let file = config.http.access.ca_file.as_deref();
    let authorities = file.map(http_client::authorities).transpose();
    Ok(authorities.context("http.ca_file")?.unwrap_or_default())
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
        match secret_file::token(path) {
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
