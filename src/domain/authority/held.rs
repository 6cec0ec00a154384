//! Why nothing of the source is answered, as one of a closed set: for metrics.

use super::standing::{Distrust, Standing};

/// Kinds of reasons to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldKind {
    /// The store's history went back.
    Broken,
    /// The source refuses our rights.
    Denied,
    /// Keys may not be read that were seen before.
    RightsLost,
    /// The sentinel is missing or cannot be read.
    Sentinel,
    /// Keys are gone without proof.
    Shrunk,
    /// The listing lacks a key that is there.
    Partial,
}

impl HeldKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Broken,
        Self::Denied,
        Self::RightsLost,
        Self::Sentinel,
        Self::Shrunk,
        Self::Partial,
    ];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Denied => "denied",
            Self::RightsLost => "rights_lost",
            Self::Sentinel => "sentinel",
            Self::Shrunk => "shrunk",
            Self::Partial => "partial",
        }
    }
}

impl Standing {
    /// What the source is not trusted for; a peer may have confirmed the listing all the same.
    #[must_use]
    pub fn held_kind(&self) -> Option<HeldKind> {
        if self.broken.is_some() {
            return Some(HeldKind::Broken);
        }
        Some(match self.held.as_ref()?.cause {
            Distrust::Denied(_) => HeldKind::Denied,
            Distrust::RightsLost(_) => HeldKind::RightsLost,
            Distrust::Sentinel(_) => HeldKind::Sentinel,
            Distrust::Shrunk { .. } => HeldKind::Shrunk,
            Distrust::Partial { .. } => HeldKind::Partial,
        })
    }
}
