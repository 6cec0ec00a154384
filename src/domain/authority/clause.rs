//! The clauses of the rules by name, so that each can be left out and shown to matter.

/// A clause of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clause {
    /// A reading counts from when it was sent, not from when it came.
    CountsFromSending,
    /// A reading that was sent before the evidence against it was received proves nothing.
    Guard,
    /// A history that went back stays broken until a higher epoch.
    BrokenStays,
    /// Vanished keys are asked for by name.
    AskByName,
    /// After a start the peers are asked first.
    First,
    /// A peer's confirmation travels with its age.
    RelayAge,
    /// What a relayed replica knows is relayed on.
    RelayChain,
    /// A greater listing is adopted while nobody confirms one.
    Adopt,
    /// Listings compare by their place in the history, not by which was confirmed last.
    Order,
    /// A peer's word is too old after a while.
    Fresh,
    /// A held peer keeps the others from agreeing.
    HeldCounts,
    /// A peer that gave no answer is not accounted for.
    SilenceCounts,
    /// A peer that said that it stops is accounted for no sooner than another.
    StoppingCounts,
    /// After agreeing, the old listing is answered until no peer can still agree on it.
    Defer,
}

impl Clause {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::CountsFromSending,
        Self::Guard,
        Self::BrokenStays,
        Self::AskByName,
        Self::First,
        Self::RelayAge,
        Self::RelayChain,
        Self::Adopt,
        Self::Order,
        Self::Fresh,
        Self::HeldCounts,
        Self::SilenceCounts,
        Self::StoppingCounts,
        Self::Defer,
    ];
}
