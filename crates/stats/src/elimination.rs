//! Linear equations, solved by Gauss–Jordan elimination.

/// Reduces the left square of an augmented matrix to the identity. `None` if it is singular: if even the largest pivot of a
/// column is less than `least`.
pub fn eliminate<R: AsRef<[f64]> + AsMut<[f64]> + Clone>(rows: &mut [R], least: f64) -> Option<()> {
    for at in 0..rows.len() {
        let size = |row: &R| row.as_ref()[at].abs();
        let best = (at..rows.len()).max_by(|a, b| size(&rows[*a]).total_cmp(&size(&rows[*b])))?;
        rows.swap(at, best);
        let pivot = rows[at].as_ref()[at];
        if pivot.abs() < least {
            return None;
        }
        rows[at].as_mut().iter_mut().for_each(|cell| *cell /= pivot);
        let leading = rows[at].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let row = row.as_mut();
            let factor = row[at];
            row.iter_mut().zip(leading.as_ref()).for_each(|(cell, lead)| *cell -= factor * lead);
        }
    }
    Some(())
}
