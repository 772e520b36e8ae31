//! Parses holds from options: a mean, a mean with its 99th percentile, a constant, a distribution as in a
//! scenario, or a file of measured holds.

use std::path::Path;
use std::time::Duration;

use zklockbench_core::disk;
use zklockbench_core::error::Error;
use zklockbench_core::units::{format_duration, parse_duration};
use zklockbench_scenario::{Columns, Distribution, MeasuredTimes, holds_from_text, parse};

#[derive(Debug, Clone, PartialEq)]
pub struct Holds {
    pub mean: Duration,
    /// Holds in TOML; `None` if only the mean is known.
    pub toml: Option<String>,
}

/// Parses `20ms`, `mean 20ms p99 200ms`, `exactly 20ms`, or a distribution as in a scenario.
pub fn parsed_holds(text: &str) -> Result<Holds, String> {
    let text = text.trim();
    if let Some(time) = text.strip_prefix("exactly ") {
        let mean = within(parse_duration(time.trim())?)?;
        return Ok(Holds { mean, toml: Some(format!("\"{}us\"", mean.as_micros())) });
    }
    if let Some(both) = text.strip_prefix("mean ") {
        return by_mean_and_p99(both);
    }
    if text.starts_with('{') {
        let mean = within(distribution(text)?.mean())?;
        return Ok(Holds { mean, toml: Some(text.to_owned()) });
    }
    Ok(Holds { mean: within(parse_duration(text)?)?, toml: None })
}

/// The 99th percentile of a standard normal distribution.
const P99: f64 = 2.326_347_9;

/// Returns the log-normal distribution with this mean and 99th percentile, e.g. `40ms p99 500ms`.
fn by_mean_and_p99(text: &str) -> Result<Holds, String> {
    let (mean, p99) =
        text.split_once(" p99 ").ok_or("write the mean and the 99th percentile: 'mean 40ms p99 500ms'")?;
    let (mean, p99) = (within(parse_duration(mean.trim())?)?, parse_duration(p99.trim())?);
    let ratio = p99.as_secs_f64() / mean.as_secs_f64();
    // p99 = mean × exp(P99 × sigma − sigma² / 2), which is largest for sigma = P99.
    let rest = P99 * P99 - 2.0 * ratio.ln();
    if ratio < 1.0 || rest < 0.0 {
        return Err(format!(
            "no log-normal distribution with a mean of {} has a 99th percentile of {}; use a 99th \
             percentile between 1 and 14.9 times the mean, or pass measured holds with --holds",
            format_duration(mean),
            format_duration(p99)
        ));
    }
    // Four digits are precise enough, and readable.
    let sigma = (1e4 * (P99 - rest.sqrt())).round() / 1e4;
    let median = mean.mul_f64((-sigma * sigma / 2.0).exp());
    Ok(Holds { mean, toml: Some(Distribution::LogNormal { median, sigma }.to_toml()) })
}

fn within(mean: Duration) -> Result<Duration, String> {
    let fits = (Duration::from_micros(1)..=Duration::from_secs(3_600)).contains(&mean);
    if fits { Ok(mean) } else { Err("the mean hold must be above 0 and at most 1h".into()) }
}

fn distribution(toml: &str) -> Result<Distribution, String> {
    let text = format!(
        "hold = {toml}\nname = \"holds\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 1\nduration = \"1s\"\n"
    );
    let parsed =
        parse("--hold", &text, &zklockbench_load::catalog()).map_err(|mistakes| mistakes.render(false))?;
    Ok(parsed.scenario.hold)
}

const LARGEST: u64 = 64 << 20;

pub fn read_holds(path: &Path, columns: &Columns) -> Result<Holds, Error> {
    let refuse = |why: String| Error::usage(format!("--holds {}: {why}", path.display()));
    let bytes = disk::read_named(path, LARGEST)
        .map_err(|unreadable| refuse(format!("{unreadable}; specify a file with holds")))?;
    let times = holds_from_text(&bytes[..], columns).map_err(refuse)?;
    let holds = Distribution::Measured(MeasuredTimes::condensed(times));
    Ok(Holds { mean: within(holds.mean()).map_err(refuse)?, toml: Some(holds.to_toml()) })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn hold_option_accepts_a_mean_a_constant_or_a_distribution() {
        assert_eq!(parsed_holds("20ms"), Ok(Holds { mean: 20 * MILLISECOND, toml: None }));
        let exact = parsed_holds("exactly 20ms").unwrap();
        assert_eq!((exact.mean, exact.toml.as_deref()), (20 * MILLISECOND, Some("\"20000us\"")));
        let text = "{ exponential = { mean = \"20ms\" } }";
        assert_eq!(parsed_holds(text), Ok(Holds { mean: 20 * MILLISECOND, toml: Some(text.into()) }));
        for wrong in ["0ms", "-5ms", "2h", "20", "{ exponential = \"20ms\" }", "{ gamma = 3 }", "exactly", ""]
        {
            assert!(parsed_holds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mean_and_99th_percentile_give_a_log_normal_distribution() {
        let holds = parsed_holds("mean 40ms p99 500ms").unwrap();
        let mut drawn: Vec<Duration> = {
            let holds = distribution(holds.toml.as_deref().unwrap()).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            (0..200_000).map(|_| holds.sample(&mut rng)).collect()
        };
        drawn.sort();
        let mean = drawn.iter().sum::<Duration>() / 200_000;
        assert!((38 * MILLISECOND..42 * MILLISECOND).contains(&mean), "{mean:?}");
        let p99 = drawn[198_000];
        assert!((475 * MILLISECOND..525 * MILLISECOND).contains(&p99), "{p99:?}");
        assert_eq!(holds.mean, 40 * MILLISECOND);
        for wrong in ["mean 40ms", "mean 40ms p99 30ms", "mean 40ms p99 1s", "mean p99 1s"] {
            assert!(parsed_holds(wrong).is_err(), "{wrong}");
        }
        let constant = parsed_holds("mean 40ms p99 40ms").unwrap();
        assert!(distribution(constant.toml.as_deref().unwrap()).is_ok());
    }
}
