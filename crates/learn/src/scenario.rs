//! Writes scenarios with learned loads, and the arrivals that they replay.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::cycle::{Cycle, Ending, Overlap};
use crate::recipe::Recipe;
use crate::reconstruct::Observed;
use crate::summarise::{FamilyValues, Summarised};
use crate::summary::{FILE, Family, FamilyKind, LearnedLoad, ScenarioFile};
use crate::times::Values;
use zklockbench_core::disk;
use zklockbench_core::units::{counted, format_micros, one_line};
use zklockbench_scenario::{Distribution, MeasuredTimes};

/// Maximum number of families for which a scenario is written.
const SCENARIOS: usize = 5;
/// Longest period that a scenario replays; for longer logs, only the busiest period is replayed.
const REPLAYED_MS: i64 = 600_000;
/// Largest number of arrivals and of locks in a scenario.
const ARRIVALS_MOST: usize = 4_000_000;
const LOCKS_MOST: usize = 100_000;
const SESSIONS_MOST: usize = 1_000;
/// Longest hold or pause in a scenario: a day.
const TIME_MOST_US: u64 = 86_400_000_000;

/// Returns the suffix, the scenario file and the arrivals file of a scenario.
fn file_names(number: usize) -> [String; 3] {
    let suffix = if number == 1 { String::new() } else { format!("-{number}") };
    let (file, arrivals) = (format!("scenario{suffix}.toml"), format!("arrivals{suffix}.csv"));
    [suffix, file, arrivals]
}

/// Removes the scenarios and arrivals that an earlier `learn` wrote to the directory.
fn remove_earlier(directory: &Path) -> io::Result<()> {
    // Without this file, files with such names are the user's.
    if !directory.join(FILE.name).exists() {
        return Ok(());
    }
    for [_, file, arrivals] in (1..=SCENARIOS).map(file_names) {
        disk::remove(&directory.join(file))?;
        disk::remove(&directory.join(arrivals))?;
    }
    Ok(())
}

/// Writes scenarios for the busiest families, and removes those of an earlier `learn`. `servers` is the size of the
/// ensemble, if known.
pub fn write_scenarios(
    observed: &Observed,
    found: &Summarised,
    servers: Option<usize>,
    directory: &Path,
) -> io::Result<Vec<ScenarioFile>> {
    remove_earlier(directory)?;
    let is_used = |family: &&Family| family.kind == FamilyKind::Lock && family.acquisitions > 0;
    let used = found.families.iter().enumerate().filter(|(_, family)| is_used(family)).take(SCENARIOS);
    let mut written = Vec::new();
    for ((at, family), number) in used.zip(1_usize..) {
        let trial = Learnt { observed, found, family, at, values: &found.values[at], number, servers };
        written.push(trial.write(directory)?);
    }
    Ok(written)
}

struct Learnt<'a> {
    observed: &'a Observed,
    found: &'a Summarised,
    family: &'a Family,
    at: usize,
    values: &'a FamilyValues,
    number: usize,
    servers: Option<usize>,
}

/// The replayed period.
#[derive(Clone, Copy)]
struct Window {
    from_ms: i64,
    to_ms: i64,
}

struct Replayed {
    arrivals: usize,
    locks: usize,
    /// Largest number of concurrent requests.
    at_once: usize,
    /// Number of replayed requests that were abandoned.
    abandoned: u64,
    /// Number of failed tries, which are not replayed.
    tries: u64,
}

impl Learnt<'_> {
    fn write(&self, directory: &Path) -> io::Result<ScenarioFile> {
        let [suffix, file, arrivals] = file_names(self.number);
        let (mut learned, mut assumed, load) = match &self.family.load {
            LearnedLoad::Closed { .. } => self.closed(),
            LearnedLoad::Open => {
                let window = self.window()?;
                let replayed = self.write_arrivals(&directory.join(&arrivals), window)?;
                self.open(window, &arrivals, &replayed)
            }
        };
        learned.extend(self.family.timeout_us.map(|us| format!("a timeout of {}", format_micros(us))));
        if u64::from(self.values.holds.most()) * 1_000 > TIME_MOST_US {
            assumed.push("a day for each longer hold".to_owned());
        }
        assumed.push(format!("an ensemble of {}", counted(self.servers() as u64, "server", "servers")));
        let text = self.text(&suffix, &learned, &assumed, &load);
        std::fs::write(directory.join(&file), text)?;
        Ok(ScenarioFile { file, family: self.family.name.clone(), learned, assumed })
    }

    /// Returns the whole period, or the busiest part of a long log.
    fn window(&self) -> io::Result<Window> {
        let from_ms = self.observed.first_ms + ms(self.family.from_us);
        let lasts_ms = ms(self.family.lasts_us);
        if lasts_ms < REPLAYED_MS {
            return Ok(Window { from_ms, to_ms: from_ms + lasts_ms + 1 });
        }
        // Number of arrivals in each second of the window that ends with the current arrival.
        let mut seconds: VecDeque<(i64, u64)> = VecDeque::new();
        let (mut within, mut most, mut busiest_ms) = (0, 0, from_ms);
        for cycle in self.observed.cycles.iter()? {
            let cycle = cycle?;
            if !self.is_replayed(&cycle) {
                continue;
            }
            let second_ms = cycle.arrived_ms - (cycle.arrived_ms - from_ms).rem_euclid(1_000);
            let is_over = |(at, _): &(i64, u64)| *at <= second_ms - REPLAYED_MS;
            while let Some((_, count)) = seconds.front().copied().filter(is_over) {
                seconds.pop_front();
                within -= count;
            }
            within += 1;
            match seconds.back_mut().filter(|(at, _)| *at == second_ms) {
                Some((_, count)) => *count += 1,
                None => seconds.push_back((second_ms, 1)),
            }
            if within > most {
                (most, busiest_ms) = (within, seconds.front().map_or(second_ms, |(at, _)| *at));
            }
        }
        Ok(Window { from_ms: busiest_ms, to_ms: busiest_ms + REPLAYED_MS })
    }

    fn is_replayed(&self, cycle: &Cycle) -> bool {
        self.is_of_family(cycle) && !self.is_failed_try(cycle)
    }

    fn is_of_family(&self, cycle: &Cycle) -> bool {
        self.found.of_lock.get(cycle.lock as usize) == Some(&self.at) && !cycle.is_carried_over
    }

    /// Returns whether the client only tried to get the lock. In a scenario, it would wait.
    fn is_failed_try(&self, cycle: &Cycle) -> bool {
        let has_timeout = self.family.timeout_us.is_some();
        !has_timeout && cycle.is_failed_try() || self.values.has_tries && cycle.may_be_try()
    }

    fn write_arrivals(&self, path: &Path, window: Window) -> io::Result<Replayed> {
        let mut file = BufWriter::new(File::create(path)?);
        let has_modes = self.family.reads > 0;
        writeln!(file, "time,lock,hold{}", if has_modes { ",mode" } else { "" })?;
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        let mut overlap = Overlap::default();
        let mut replayed = Replayed { arrivals: 0, locks: 0, at_once: 0, abandoned: 0, tries: 0 };
        for cycle in self.observed.cycles.iter()? {
            let cycle = cycle?;
            // Cycles are in order of arrival.
            if cycle.arrived_ms >= window.to_ms || replayed.arrivals >= ARRIVALS_MOST {
                break;
            }
            let is_within = (window.from_ms..window.to_ms).contains(&cycle.arrived_ms);
            if !is_within || !self.is_of_family(&cycle) {
                continue;
            }
            if self.is_failed_try(&cycle) {
                replayed.tries += 1;
                continue;
            }
            let cycle = if self.values.are_late { cycle.at_latest() } else { cycle };
            replayed.abandoned += u64::from(cycle.ending == Ending::GaveUp);
            let next = numbers.len();
            let lock = *numbers.entry(cycle.lock).or_insert(next) % LOCKS_MOST;
            let at_s = (cycle.arrived_ms - window.from_ms) as f64 / 1e3;
            let mode = match (has_modes, cycle.is_read) {
                (false, _) => "",
                (true, true) => ",read",
                (true, false) => ",write",
            };
            writeln!(file, "{at_s:.3},{lock},{}{mode}", self.hold(&cycle))?;
            replayed.arrivals += 1;
            let is_open = cycle.ending == Ending::Open;
            overlap.add(cycle.arrived_ms, if is_open { self.observed.last_ms } else { cycle.until_ms() });
        }
        replayed.at_once = overlap.most;
        replayed.locks = numbers.len().clamp(1, LOCKS_MOST);
        file.flush()?;
        Ok(replayed)
    }

    /// Returns the hold of an arrival; empty if it must be drawn from all holds.
    fn hold(&self, cycle: &Cycle) -> String {
        match (cycle.ending, cycle.held_ms) {
            // An abandoned request occupies a position in the queue, but never holds the lock.
            (Ending::GaveUp, _) if self.family.timeout_us.is_none() => "0s".to_owned(),
            (Ending::Released, Some(ms)) => format!("{}us", self.without_handoff(ms)),
            _ => String::new(),
        }
    }

    /// Returns a logged time minus its handoff, because a new run adds its own handoffs; at most a day.
    fn without_handoff(&self, ms: u32) -> u64 {
        (u64::from(ms) * 1_000).saturating_sub(self.family.handoff.estimate_us).min(TIME_MOST_US)
    }

    fn distribution(&self, values: &Values) -> Distribution {
        let times = values.condensed(MeasuredTimes::MOST).into_iter();
        let times: Vec<Duration> = times.map(|ms| Duration::from_micros(self.without_handoff(ms))).collect();
        match times.as_slice() {
            [] => Distribution::ZERO,
            _ => Distribution::Measured(MeasuredTimes::new(times)),
        }
    }

    fn open(
        &self,
        window: Window,
        arrivals: &str,
        replayed: &Replayed,
    ) -> (Vec<String>, Vec<String>, String) {
        let contenders = (replayed.at_once * 3 / 2 + 2).clamp(2, SESSIONS_MOST);
        let learned = vec![
            format!("times, locks and holds of {}", counted(replayed.arrivals as u64, "arrival", "arrivals")),
            counted(replayed.locks as u64, "lock", "locks"),
        ];
        let assumed = [
            Some(format!("{contenders} sessions: 1.5 times the maximum number of concurrent requests")),
            (window.to_ms - window.from_ms == REPLAYED_MS)
                .then(|| "the busiest ten minutes are representative of the whole period".to_owned()),
            (replayed.abandoned > 0 && self.family.timeout_us.is_none())
                .then(|| "abandoned requests wait until they are served, with a hold of zero".to_owned()),
            (replayed.tries > 0)
                .then(|| format!("{} omitted", counted(replayed.tries, "failed try is", "failed tries are"))),
        ];
        let mut load = format!("contenders = {contenders}\nlocks = {}\nload = \"open\"\n", replayed.locks);
        let _ = writeln!(load, "arrivals = {{ replay = \"{arrivals}\" }}");
        (learned, assumed.into_iter().flatten().collect(), load)
    }

    fn closed(&self) -> (Vec<String>, Vec<String>, String) {
        let contenders = self.values.contenders.clamp(1, SESSIONS_MOST);
        let lasts_s = (self.family.lasts_us / 1_000_000).clamp(5, 60);
        let learned = vec![
            format!("{contenders} sessions that request the lock again after a release"),
            "their holds and the times between a release and the next request".to_owned(),
        ];
        let assumed = vec!["a closed load: sessions make no other requests while they wait".to_owned()];
        let think = self.distribution(&self.values.since).to_toml();
        let load = format!(
            "contenders = {contenders}\nload = \"closed\"\nthink = {think}\nduration = \"{lasts_s}s\"\n"
        );
        (learned, assumed, load)
    }

    fn text(&self, suffix: &str, learned: &[String], assumed: &[String], load: &str) -> String {
        let family = self.family;
        let mut text = format!("# Family {}, {}.\n", one_line(&family.name), family.recipe.words());
        let handoff = format_micros(family.handoff.estimate_us);
        let _ = writeln!(text, "# Logged holds include the handoff, so {handoff} was subtracted from each.");
        if let Some(wait) = &family.wait {
            let [p50, p99] = [wait.p50, wait.p99].map(|wait| format_micros(wait.estimate_us));
            let _ = writeln!(text, "# Waits were about {p50} (p50) and {p99} (p99).");
        }
        let _ = writeln!(text, "\nname = \"learned{suffix}\"");
        let facts = format!("Learned: {}. Assumed: {}.", learned.join("; "), assumed.join("; "));
        let _ = writeln!(text, "description = \"{facts}\"");
        let _ = writeln!(text, "strategies = [{}]", self.strategy());
        text += load;
        if let Some(timeout_us) = family.timeout_us {
            let _ = writeln!(text, "acquire_timeout = \"{timeout_us}us\"");
        }
        let _ = writeln!(text, "hold = {}", self.distribution(&self.values.holds).to_toml());
        if family.reads > 0 {
            let _ = writeln!(text, "read_ratio = {:.6}", family.reads as f64 / family.arrivals.max(1) as f64);
        }
        let _ = writeln!(text, "repetitions = 1\n\n[ensemble]\nservers = {}", self.servers());
        text
    }

    /// Returns the number of servers to run: as many as have logs, if an ensemble may have that many.
    fn servers(&self) -> usize {
        self.servers.filter(|servers| [1, 3, 5].contains(servers)).unwrap_or(3)
    }

    fn strategy(&self) -> String {
        let name = self.family.recipe.strategy();
        match self.family.recipe {
            Recipe::CuratorSemaphore | Recipe::KazooSemaphore => {
                let leases = self.family.longest_queue.clamp(1, 1_000);
                format!("{{ name = \"{name}\", leases = {leases} }}")
            }
            Recipe::Mixed if self.family.reads > 0 => "\"shared-predecessor-watch\"".to_owned(),
            _ => format!("\"{name}\""),
        }
    }
}

fn ms(us: u64) -> i64 {
    i64::try_from(us / 1_000).unwrap_or(i64::MAX)
}
