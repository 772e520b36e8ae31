//! What everything else is said in: quantities and how people write them, one monotonic clock, the table of measures, what locks,
//! faults and gates are called and take, verdicts, errors; files, as far as everybody writes and reads them; and how a mutex is taken.

pub mod catalog;
pub mod clock;
pub mod connect;
pub mod disk;
pub mod error;
pub mod evidence;
pub mod jute;
pub mod locked;
pub mod measure;
pub mod ring;
pub mod spool;
pub mod units;
pub mod verdict;
