//! What stored results answer: which side is faster, whether a gate holds, where a lock reaches its limit, whether it will carry a
//! load, what articles claim; with the statistics and the queues under that.

pub mod ab;
pub mod articles;
pub mod compare;
pub mod gate;
pub mod model;
pub mod objective;
pub mod plan;
pub mod sweep;
