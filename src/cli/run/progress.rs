//! Progress display: a bar with the remaining time on a terminal, otherwise plain lines.

#![expect(clippy::disallowed_methods, reason = "the duration of a phase is only shown")]

use std::io::IsTerminal;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::output;

use crate::run::RunEvent;
use zklockbench_core::clock::millis;
use zklockbench_core::locked::locked;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{at_least, cell_name, counted, format_micros, shown, whole_seconds};
use zklockbench_core::verdict::Verdict;
use zklockbench_load::EnvironmentEvent;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{Standstill, Trial};
use zklockbench_report::document::violated_word;
use zklockbench_scenario::{TrialPlan, TrialSpec};

#[derive(Clone)]
pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    now: Arc<Mutex<Now>>,
}

/// State of the progress display: the current trial and the totals.
struct Now {
    trials: usize,
    expected: Duration,
    number: usize,
    name: String,
    began: Instant,
    estimate: Duration,
    /// Estimated and actual duration of the completed trials.
    done: (Duration, Duration),
}

impl Progress {
    /// Creates the display for a plan: nothing if `quiet`, a bar if wanted and stderr is a terminal, otherwise
    /// lines.
    pub fn new(plan: &TrialPlan, quiet: bool, wants_bar: bool) -> Self {
        let expected = plan.estimated_duration();
        let wants_bar = !quiet && wants_bar && !output::verbose() && std::io::stderr().is_terminal();
        let now = Now {
            trials: plan.trials.len(),
            expected,
            number: 0,
            name: "starting".into(),
            began: Instant::now(),
            estimate: Duration::ZERO,
            done: (Duration::ZERO, Duration::ZERO),
        };
        Self { bar: wants_bar.then(|| bar(expected)), quiet, now: Arc::new(Mutex::new(now)) }
    }

    pub fn expected(&self) -> String {
        whole_seconds(self.now().expected)
    }

    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    pub fn event(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::AlreadyThere(spec) => self.already_there(spec),
            RunEvent::Counts(_) => self.show("counting requests"),
            RunEvent::TrialBegins(spec) => self.trial_begins(spec),
            RunEvent::Within(event) => self.within(event),
            RunEvent::TrialEnded(trial) => self.trial_ended(trial),
            RunEvent::RoundAdded(trials, so_far) => {
                self.added(trials, &format!("{}: running another repetition of each", so_far.describe()));
            }
            RunEvent::MadeAgain(trials) => {
                let count = counted(trials.len(), "invalid trial", "invalid trials");
                self.added(trials, &format!("rerunning {count}"));
            }
        }
    }

    fn already_there(&self, spec: &TrialSpec) {
        let mut now = self.now();
        now.number += 1;
        now.expected = now.expected.saturating_sub(spec.estimated_duration());
        self.set_length(now.expected);
    }

    fn trial_begins(&self, spec: &TrialSpec) {
        let mut now = self.now();
        now.number += 1;
        now.name = cell_name(&spec.strategy.label, spec.contenders);
        now.began = Instant::now();
        now.estimate = spec.estimated_duration();
    }

    fn trial_ended(&self, trial: &Trial) {
        let mut now = self.now();
        now.done = (now.done.0 + now.estimate, now.done.1 + now.began.elapsed());
        self.note(&line(trial, now.number, now.trials));
    }

    fn added(&self, trials: &[TrialSpec], why: &str) {
        let mut now = self.now();
        now.trials += trials.len();
        now.expected += trials.iter().map(TrialSpec::estimated_duration).sum::<Duration>();
        self.set_length(now.expected);
        self.note(why);
    }

    fn set_length(&self, expected: Duration) {
        if let Some(bar) = &self.bar {
            bar.set_length(millis(expected));
        }
    }

    fn within(&self, event: &EnvironmentEvent<'_>) {
        match event {
            EnvironmentEvent::Warning(text) => self.say(&format!("warning: {text}")),
            EnvironmentEvent::Note(text) => self.note(text),
            EnvironmentEvent::Phase { name, .. } => self.show(name),
            EnvironmentEvent::Tick { acquired, of } => {
                let all = of.map_or_else(String::new, |all| format!(" of {all}"));
                self.show(&format!("{acquired}{all} acquired"));
            }
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&self, what: &str) {
        let Some(bar) = &self.bar else { return };
        let now = self.now();
        let elapsed = now.began.elapsed().min(now.estimate);
        let done = now.done.0 + elapsed;
        bar.set_position(millis(done));
        // Correct the remaining time by the error of the estimates so far.
        let pace =
            if now.done.0.is_zero() { 1.0 } else { now.done.1.as_secs_f64() / now.done.0.as_secs_f64() };
        let left = now.expected.saturating_sub(done).mul_f64(pace.clamp(0.1, 10.0));
        bar.set_message(message(&now, left, what));
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        locked(&self.now)
    }
}

fn bar(expected: Duration) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(millis(expected)), ProgressDrawTarget::stderr());
    let coloured = output::may_colour(&std::io::stderr());
    let template = if coloured {
        "{elapsed:>4} [{bar:15.cyan/dim}] {wide_msg}"
    } else {
        "{elapsed:>4} [{bar:15}] {wide_msg}"
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("=> "));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Returns the text after the bar. A narrow terminal hides the end of the text, so the most important part
/// comes first.
fn message(now: &Now, left: Duration, what: &str) -> String {
    format!("{}/{}, {} left: {}: {what}", now.number, now.trials, whole_seconds(left), now.name)
}

/// Maximum width of a trial's line.
const WIDTH: usize = 80;
/// Width of the name column.
const NAME: usize = 34;

/// Describes a trial on one line with aligned metrics. The results contain all reasons in full.
fn line(trial: &Trial, number: usize, of: usize) -> String {
    let wait = trial.survival(Measure::Wait).map(|waits| waits.quantile(0.5));
    let wait = wait.map_or_else(
        || "-".to_owned(),
        |wait| at_least(format!("{:.2}", wait.us as f64 / 1e3), wait.at_least),
    );
    let name = cell_name(&trial.spec.strategy.label, trial.spec.contenders);
    let mut text = figures(number, of, &name, trial.spec.repetition, THROUGHPUT.of(trial), &wait);
    if matches!(trial.judged.verdict, Verdict::Violated(_)) {
        let word = violated_word(trial.judged.is_only_stuck());
        text += &format!(", {word}: {}", trial.judged.why.as_deref().unwrap_or_default());
    }
    if let Some(Standstill { lasted_us, .. }) = &trial.standstill {
        text += &format!(", outage of {}", format_micros(*lasted_us));
    }
    if let Some(why) = &trial.health.invalid {
        text += &format!(", invalid: {why}");
    }
    if let Some(cut) = &trial.cut_short {
        text += &format!(", partial: {}", cut.why);
    }
    shown(&text, WIDTH)
}

/// Formats the metrics of a trial, with the wait in milliseconds.
fn figures(number: usize, of: usize, name: &str, repetition: u32, rate: Option<f64>, wait: &str) -> String {
    let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let digits = of.to_string().len();
    let name = shown(name, NAME);
    format!("[{number:>digits$}/{of}] {name:<NAME$} #{repetition} {rate:>7}/s p50 {wait:>8} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_lines_fit_80_columns_with_aligned_metrics() {
        let name = "a-very-long-strategy timeout=10s, 1000 contenders";
        let first = figures(3, 120, "predecessor-watch, 20 contenders", 1, Some(70.84), "242.13");
        let second = figures(17, 120, name, 2, None, "-");
        let column = |text: &str| text.split(" p50 ").next().unwrap().chars().count();
        assert_eq!(column(&first), column(&second), "{first}\n{second}");
        assert!(first.chars().count() <= WIDTH && second.chars().count() <= WIDTH, "{first}\n{second}");
        assert!(first.starts_with("[  3/120] predecessor-watch, 20 contenders"), "{first}");
    }

    #[test]
    fn progress_message_starts_with_the_trial_number_and_remaining_time() {
        let now = Now {
            trials: 24,
            expected: Duration::ZERO,
            number: 5,
            name: "predecessor-watch, 20 contenders".into(),
            began: Instant::now(),
            estimate: Duration::ZERO,
            done: (Duration::ZERO, Duration::ZERO),
        };
        let said = message(&now, Duration::from_millis(78_400), "warming up");
        assert_eq!(said, "5/24, 79 s left: predecessor-watch, 20 contenders: warming up");
    }
}
