//! Client, cost model and servers side by side, in one trial.

/// One line of the three-way check of one trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingLine {
    /// What is counted.
    pub what: String,
    /// As the client counted it.
    pub client: Option<u64>,
    /// As the cost model predicts it.
    pub expected: Option<u64>,
    /// As the servers counted it.
    pub servers: Option<u64>,
    /// Whether the numbers that are there agree; `None` when there is only one.
    pub agrees: Option<bool>,
}
