//! `summary.csv`: one row for each trial, with every number that one would plot.
//!
//! Header and rows come from one table of columns, so they cannot disagree. An empty cell means: not
//! measured.

mod columns;

use std::io;

use self::columns::columns;
use super::wire::TrialFile;

/// Writes the rows of all trials.
pub fn write(out: impl io::Write, trials: &[TrialFile]) -> csv::Result<()> {
    let columns = columns();
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns.iter().map(|column| &column.name))?;
    for trial in trials {
        csv.write_record(columns.iter().map(|column| (column.cell)(trial).unwrap_or_default()))?;
    }
    Ok(csv.flush()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_columns_share_a_name_and_durations_say_their_unit() {
        let names: Vec<_> = columns().into_iter().map(|column| column.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in names.iter().filter(|name| name.contains("_p99") || name.contains("_mean")) {
            assert!(name.ends_with("_us"), "{name}");
        }
    }
}
