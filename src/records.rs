//! What is asked, what happened, and how both are kept: the floors that both halves share, as a crate of their own.

// The vocabulary of everything else.
pub mod words;
// The question.
pub mod scenario;
// What happened.
pub mod record;
// The bridge on disk.
pub mod results;
