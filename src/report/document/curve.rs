//! Curves with no more points than can be seen.

/// The points of a curve without those that lie within `tolerance` of the line between the ones that are kept.
///
/// Source: D. Douglas and T. Peucker, Algorithms for the reduction of the number of points required to represent a
/// digitized line or its caricature, 1973. The distance is taken in whatever the points are in: pixels, for what is drawn.
pub fn simplified(points: &[(f64, f64)], tolerance: f64) -> Vec<(f64, f64)> {
    let mut kept = vec![false; points.len()];
    let mut parts = vec![(0, points.len().saturating_sub(1))];
    if let (Some(first), last) = (kept.first_mut(), points.len().saturating_sub(1)) {
        *first = true;
        kept[last] = true;
    }
    while let Some((from, to)) = parts.pop() {
        let furthest = (from + 1..to)
            .map(|at| (at, distance(points[at], points[from], points[to])))
            .max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((at, away)) = furthest
            && away > tolerance
        {
            kept[at] = true;
            parts.extend([(from, at), (at, to)]);
        }
    }
    points.iter().zip(kept).filter(|(_, kept)| *kept).map(|(point, _)| *point).collect()
}

/// From a point to the line between two others.
fn distance(point: (f64, f64), from: (f64, f64), to: (f64, f64)) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length == 0.0 {
        return (point.0 - from.0).hypot(point.1 - from.1);
    }
    (dx * (from.1 - point.1) - dy * (from.0 - point.0)).abs() / length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_keeps_its_ends_and_a_step_its_corners() {
        let line: Vec<(f64, f64)> = (0..1_000).map(|at| (f64::from(at), 2.0 * f64::from(at))).collect();
        assert_eq!(simplified(&line, 0.25), [line[0], line[999]]);
        let step: Vec<(f64, f64)> =
            (0..1_000).map(|at| (f64::from(at), if at < 500 { 0.0 } else { 50.0 })).collect();
        assert_eq!(simplified(&step, 0.25), [step[0], step[499], step[500], step[999]]);
        assert_eq!(simplified(&[], 1.0), []);
        assert_eq!(simplified(&[(1.0, 2.0)], 1.0), [(1.0, 2.0)]);
    }
}
