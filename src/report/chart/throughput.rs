//! Throughput against contenders.

use super::axis::Axis;
use super::bars::{self, Bars};
use super::by_contenders::{Figure, on_repetitions};
use super::series::{self as lines, Series};
use super::sheet::Sheet;
use super::{Picture, caption};
use crate::report::View;
use crate::units;

const UNIT: &str = "acquisitions per second";

/// Draws it; the error says why not.
pub(super) fn draw(view: &View) -> Result<Picture, String> {
    let figure = Figure { of: |repetition| repetition.throughput, from: 1 };
    let counts = figure.counts(view);
    let said = caption::of(view, on_repetitions(view), |cell| figure.is_in(cell));
    match counts.as_slice() {
        [] => Err("no trial measured a throughput".to_owned()),
        [one] => {
            let title = format!("Throughput, {}", units::contenders(*one));
            Ok(bars::draw(
                view,
                figure.of,
                &Bars { title, unit: UNIT, contenders: *one, references: Vec::new() },
                &said,
            ))
        }
        many => Ok(over(view, &figure.series(view), many, &said)),
    }
}

fn over(view: &View, all: &[Series], counts: &[usize], said: &[String]) -> Picture {
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(view, "Throughput by number of contenders", said, &keys);
    let y = Axis::amounts(UNIT, all.iter().flat_map(Series::heights));
    let plot = sheet.plot(Axis::contenders(counts), y, &keys);
    lines::draw(&mut sheet.picture, &plot, all);
    sheet.picture
}
