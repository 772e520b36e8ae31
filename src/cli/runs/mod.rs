//! What commands share that measure by many runs: the ensemble that is kept for all of them, and each run as a process of
//! its own, told what one would tell `run` by hand.

pub mod child;
pub mod place;
