//! `compare`: tests whether one run is slower than another.

use std::time::SystemTime;

use serde_json::json;

use super::args::CompareArgs;
use super::export::{Outputs, Prepared};
use super::output;
use zklockbench_analysis::compare::{Ask, Power, Side, compare, power};

use zklockbench_core::error::{Error, Exit};
use zklockbench_report::ci::CiReport;

fn tell_power(power: &Power) -> Result<Exit, Error> {
    refuse_if!(power.change <= 0.0, "--power must be above 0%, e.g. 5%");
    output::tell("compare", Exit::Held, &json!({ "power": power }), || {
        output::text(&zklockbench_report::power(power, output::style()))
    })
}

#[expect(clippy::disallowed_methods, reason = "the time of the failure is only a label")]
pub fn execute(args: &CompareArgs) -> Result<Exit, Error> {
    let outputs =
        Outputs { junit: args.junit.clone(), github: args.github, ..Outputs::default() }.prepare()?;
    let result = compare_and_tell(args, &outputs);
    result.inspect_err(|error| outputs.broke_off("comparison", SystemTime::now(), error))
}

fn compare_and_tell(args: &CompareArgs, outputs: &Prepared) -> Result<Exit, Error> {
    let base = Side::read(&args.base)?;
    let ask =
        Ask { figures: args.judging.figures.clone(), terms: args.judging.terms(None), force: args.force };
    let new = match (&args.new, args.power) {
        (Some(new), _) => Side::read(new)?,
        (None, Some(change)) => return tell_power(&power(&base, &ask, change)),
        (None, None) => {
            return Err(Error::usage("specify a second run to judge, or use --power, e.g. --power 5%"));
        }
    };
    let compared = compare(&base, &new, &ask)?;
    if let Some(path) = &args.markdown {
        output::file(path, &zklockbench_report::comparison_markdown(&compared))?;
    }
    if let Some(path) = &args.html {
        let page = zklockbench_report::page::of_comparison(&base, &new, &compared);
        super::report::write(&[page], None, path, Some("--html"))?;
    }
    if let Some(path) = &args.chart {
        zklockbench_report::chart::draw_comparison(&compared, path)?;
    }
    if let Some(path) = &args.percentiles {
        zklockbench_report::chart::draw_percentiles(&base, &new, &compared, path)?;
    }
    outputs.write(&CiReport::of_comparison(&compared))?;
    output::tell("compare", compared.conclusion.exit(), &json!({ "comparison": compared }), || {
        output::text(&zklockbench_report::comparison(&compared, output::style()))
    })
}
