//! What several tests of the scenario layer share.

pub mod cards;
