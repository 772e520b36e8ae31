//! Fan-out against contenders, beside what is least and most: one waiter notified, or every one.

use super::axis::Axis;
use super::bars::{self, Bars};
use super::by_contenders::{Figure, on_repetitions};
use super::look::{FAINT_INK, RULE, dashed};
use super::picture::Anchor;
use super::plot::{Plot, SMALL};
use super::series::{self as lines, Series};
use super::sheet::Sheet;
use super::{Picture, caption};
use crate::report::View;
use crate::units;

const UNIT: &str = "fan-out: notifications caused by a release, per release";
const LEAST: &str = "1: one waiter is notified";
const MOST: &str = "N−1: every waiter is notified";

/// Draws it; the error says why not.
pub(super) fn draw(view: &View) -> Result<Picture, String> {
    let figure = Figure { of: |repetition| repetition.fan_out, from: 2 };
    let counts = figure.counts(view);
    let mut said = on_repetitions(view);
    let silent = view.cells.iter().any(|cell| figure.is_in(cell) && cell.median(figure.of) == Some(0.0));
    if silent {
        said.push("0: waiters are not notified, but look again after a time.".to_owned());
    }
    let said = caption::of(view, said, |cell| figure.is_in(cell));
    match counts.as_slice() {
        [] => Err("no trial released a lock that others waited for".to_owned()),
        [one] => Ok(bars::draw(view, figure.of, &single(*one), &said)),
        many => Ok(over(view, &figure.series(view), many, &said)),
    }
}

#[allow(clippy::cast_precision_loss)]
fn single(contenders: usize) -> Bars<'static> {
    let mut references = vec![(1.0, LEAST.to_owned())];
    if contenders > 2 {
        references.push((contenders as f64 - 1.0, MOST.to_owned()));
    }
    Bars { title: format!("Fan-out, {}", units::contenders(contenders)), unit: UNIT, contenders, references }
}

#[allow(clippy::cast_precision_loss)]
fn over(view: &View, all: &[Series], counts: &[usize], said: &[String]) -> Picture {
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(view, "Fan-out by number of contenders", said, &keys);
    let ends = (counts[0] as f64, counts[counts.len() - 1] as f64);
    let highest = all.iter().flat_map(Series::heights).fold(ends.1 - 1.0, f64::max);
    let plot = sheet.plot(Axis::contenders(counts), Axis::zero_and_log(UNIT, highest), &keys);
    references(&mut sheet.picture, &plot, ends);
    lines::draw(&mut sheet.picture, &plot, all);
    sheet.picture
}

fn references(picture: &mut Picture, plot: &Plot, (low, high): (f64, f64)) {
    let along = |step: u32| low * (high / low).powf(f64::from(step) / 60.0);
    let least = [plot.at(low, 1.0), plot.at(high, 1.0)];
    let most: Vec<_> = (0..=60).map(|step| plot.at(along(step), along(step) - 1.0)).collect();
    for line in [least.as_slice(), most.as_slice()] {
        for stroke in dashed(line, &[2.0, 3.0]) {
            picture.line(stroke, RULE, 1.0);
        }
    }
    let style = (SMALL, FAINT_INK, Anchor::End);
    picture.text((plot.right - 4.0, least[1].1 - 18.0), LEAST, style);
    let (across, row) = most[48];
    picture.text((across - 14.0, row - 6.0), MOST, style);
}
