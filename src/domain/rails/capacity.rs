//! What is left of a backend: the rails that look at all its servers together.

use jiff::Timestamp;

use super::course::{Course, moments};
use super::station::{Member, Station};
use super::{Capacity, Rail};
use crate::domain::answer::Answer;
use crate::domain::name::{Name, ServerId};
use crate::domain::settings::Floors;

/// What a rail has found at one station.
#[derive(Debug)]
pub(super) struct Finding<'a> {
    pub(super) rail: Rail,
    /// The rows that make the difference.
    pub(super) rows: Vec<&'a ServerId>,
    pub(super) text: String,
}

/// A backend at one moment, in one of the two snapshots: with servers that HAProxy keeps as they
/// are, whatever that is, taken as closed and as open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    surely: Count,
    perhaps: Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    can_serve: usize,
    canary_alone: bool,
    zones_out: usize,
}

/// One of the two snapshots, at one moment.
#[derive(Clone, Copy)]
struct Look {
    of: fn(&Member<'_>, Timestamp) -> Answer,
    at: Timestamp,
    /// Whether what is seen down is taken as down.
    seen: bool,
}

/// Whether a server counts: [`Look::serves`] or [`Look::may_serve`].
type Serves = fn(Look, &Member<'_>) -> bool;

/// The worst moments of a station.
struct Worst {
    rail: Rail,
    look: Look,
    standing: Standing,
}

/// Judges a station over time: what is left of it, and what the rails say.
pub(super) fn judge<'a>(
    station: &Station<'a>,
    floors: &Floors,
    now: Timestamp,
) -> (Capacity, Vec<Finding<'a>>) {
    let floor = floors.of(station.backend, station.is_canary_only());
    let mut capacity = station.capacity(floor, now);
    let mut worst: Vec<Worst> = Vec::new();
    for at in moments(station.courses()) {
        for seen in [true, false] {
            let before = station.standing(Look {
                of: before,
                at,
                seen,
            });
            let look = Look {
                of: after,
                at,
                seen,
            };
            let standing = station.standing(look);
            if seen && standing.surely.can_serve < capacity.next {
                capacity.next = standing.surely.can_serve;
                capacity.at = at;
            }
            for rail in broken(before, standing, floor) {
                note(&mut worst, rail, look, standing);
            }
        }
    }
    let finding = |worst: &Worst| station.finding(worst, floor, now);
    (capacity, worst.iter().map(finding).collect())
}

/// The rails that a write breaks: what is so without it is not its fault. A server that HAProxy
/// keeps as it is counts for nothing, and still its drain makes something worse.
fn broken(before: Standing, after: Standing, floor: usize) -> Vec<Rail> {
    let worse = |is_worse: fn(Count, Count) -> bool| {
        is_worse(before.surely, after.surely) || is_worse(before.perhaps, after.perhaps)
    };
    let fewer = worse(|before, after| after.can_serve < before.can_serve);
    let alone = worse(|before, after| after.canary_alone && !before.canary_alone);
    let out = worse(|before, after| after.zones_out > before.zones_out);
    let rails = [
        (Rail::Floor, fewer && after.surely.can_serve < floor),
        (Rail::CanaryAlone, alone && after.surely.canary_alone),
        (Rail::SecondZone, out && after.surely.zones_out >= 2),
    ];
    let broken = rails.into_iter().filter(|(_, is_broken)| *is_broken);
    broken.map(|(rail, _)| rail).collect()
}

/// Keeps the worst moment of each rail, the first of those that are equally bad.
fn note(worst: &mut Vec<Worst>, rail: Rail, look: Look, standing: Standing) {
    let new = Worst {
        rail,
        look,
        standing,
    };
    match worst.iter_mut().find(|known| known.rail == rail) {
        None => worst.push(new),
        Some(known) => {
            let (is, was) = (standing.surely, known.standing.surely);
            let is_worse = is.can_serve < was.can_serve || is.zones_out > was.zones_out;
            if is_worse {
                *known = new;
            }
        }
    }
}

impl<'a> Station<'a> {
    fn courses(&self) -> impl Iterator<Item = &Course> {
        let members = self.members.iter();
        members.flat_map(|member| [&member.before, &member.after])
    }

    pub(super) fn is_canary_only(&self) -> bool {
        self.members.iter().all(|member| member.canary)
    }

    /// The canary is not built for the load of the others: it counts only where it is alone.
    fn counted(&self) -> impl Iterator<Item = &Member<'a>> {
        let canary_only = self.is_canary_only();
        let members = self.members.iter();
        members.filter(move |member| canary_only || !member.canary)
    }

    fn capacity(&self, floor: usize, now: Timestamp) -> Capacity {
        let look = |of| Look {
            of,
            at: now,
            seen: true,
        };
        Capacity {
            backend: Name::parse(self.backend).expect("the backend of a server id is a name"),
            zone: self.zone.cloned(),
            now: self.standing(look(before)).surely.can_serve,
            next: self.standing(look(after)).surely.can_serve,
            at: now,
            of: self.counted().count(),
            floor,
        }
    }

    fn standing(&self, look: Look) -> Standing {
        let count = |serves: Serves| Count {
            can_serve: self.counted().filter(|m| serves(look, m)).count(),
            canary_alone: self.canary_alone(look, serves),
            zones_out: self.zones_out(look, serves).len(),
        };
        Standing {
            surely: count(Look::serves),
            perhaps: count(Look::may_serve),
        }
    }

    /// Whether all traffic goes to the canary: HAProxy takes backup servers only when no active one
    /// can serve. A canary that may serve counts here.
    fn canary_alone(&self, look: Look, serves: Serves) -> bool {
        if self.is_canary_only() {
            return false;
        }
        let ranks = [true, false].map(|active| {
            let of_rank = || {
                self.members
                    .iter()
                    .filter(move |m| m.placement.active == active)
            };
            let others = of_rank().any(|member| !member.canary && serves(look, member));
            let canary = of_rank().any(|member| member.canary && look.may_serve(member));
            (others, canary)
        });
        let first = ranks
            .into_iter()
            .find(|(others, canary)| *others || *canary);
        first.is_some_and(|(others, _)| !others)
    }

    /// The zones of which no server can serve, where they are several.
    fn zones_out(&self, look: Look, serves: Serves) -> Vec<&'a Name> {
        let with_zone = || {
            let members = self.counted().filter(|m| m.placement.weight > 0);
            members.filter_map(|m| Some((m.row.zone.as_ref()?, m)))
        };
        let mut zones: Vec<_> = with_zone().map(|(zone, _)| zone).collect();
        zones.sort_unstable();
        zones.dedup();
        if zones.len() < 2 {
            return Vec::new();
        }
        zones.retain(|zone| !with_zone().any(|(other, m)| other == *zone && serves(look, m)));
        zones
    }

    fn finding(&self, worst: &Worst, floor: usize, now: Timestamp) -> Finding<'a> {
        let Worst {
            rail,
            look,
            standing,
        } = worst;
        let what = match rail {
            Rail::CanaryAlone => "only the canary would take traffic".to_owned(),
            Rail::SecondZone => {
                let zones: Vec<_> = self
                    .zones_out(*look, Look::serves)
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                format!("all servers of the zones {} would be out", zones.join(", "))
            }
            Rail::Floor
            | Rail::Settings
            | Rail::ManyRows
            | Rail::MaintFromReady
            | Rail::DeployLock
            | Rail::Ttl
            | Rail::Reason
            | Rail::TooFarAhead => format!(
                "{} of {} servers could serve, the floor is {floor}",
                standing.surely.can_serve,
                self.counted().count()
            ),
        };
        let mut text = format!("{}: {what}", self.backend);
        match self.zone {
            Some(zone) => text += &format!(", seen from the nodes of zone {zone}"),
            None => text += ", seen from nodes whose zone is not known",
        }
        if look.at > now {
            text += &format!(", from {}", look.at);
        }
        let down = self
            .members
            .iter()
            .filter(|member| look.seen && member.down);
        let down: Vec<_> = down.map(|member| member.server.to_string()).collect();
        if !down.is_empty() {
            text += &format!(" (down: {})", down.join(", "));
        }
        Finding {
            rail: *rail,
            rows: self.movers(*look),
            text,
        }
    }

    /// The rows that serve less than they would, or for the canary more.
    fn movers(&self, look: Look) -> Vec<&'a ServerId> {
        let earlier = Look { of: before, ..look };
        let moves = |member: &&Member<'_>| {
            let (was, is) = (earlier.may_serve(member), look.may_serve(member));
            was != is && (was || member.canary) || earlier.serves(member) && !look.serves(member)
        };
        let members = self.members.iter().filter(moves);
        members.map(|member| member.server).collect()
    }
}

impl Look {
    fn serves(self, member: &Member<'_>) -> bool {
        member.serves((self.of)(member, self.at), self.seen)
    }

    fn may_serve(self, member: &Member<'_>) -> bool {
        member.may_serve((self.of)(member, self.at), self.seen)
    }
}

fn before(member: &Member<'_>, at: Timestamp) -> Answer {
    member.before.at(at)
}

fn after(member: &Member<'_>, at: Timestamp) -> Answer {
    member.after.at(at)
}
