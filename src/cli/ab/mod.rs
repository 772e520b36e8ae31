//! `ab`: compares two variants of a scenario in alternating blocks. The blocks share one ensemble, or each
//! block reopens its ensembles.
//!
//! Each run is a separate process with its own directory, so two binaries can be compared as well.

pub mod args;
mod side;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::output;
use super::run::open_ensemble::Needs;
use super::run::{host, places as where_results_are, tool_commit};
use super::runs::{ReadyEnsemble, SeriesEnd, expected, how_to_resume, tell_resumed, to_resume};
use super::shared_args::{CountingWhen, GeneratorArgs, InstallArgs, Judging, OpeningArgs};
use zklockbench_analysis::ab::{
    AbFile, Answers, Asked, Block, BlockRecord, Comparison, Conclusion, CountedCell, Ending, FILE,
    FigureQuestion, Length, RUNS, RunRecord, SideRecord, Sides, Silence, Turn, compare,
};
use zklockbench_analysis::compare::{Scale, Terms, counts_losses, losses};
use zklockbench_record::{CellKey, EnsembleInfo, Floor, Trial};
use zklockbench_stats::{Design, Interval};

use crate::run::series::{Layout, Name, Series};
use args::AbArgs;
use side::{BySide, Side, compared_drivers, questions};
use zklockbench_core::clock::micros;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{counted, listed, number, percent, whole_seconds};
use zklockbench_core::verdict::Verdict;
use zklockbench_load::COUNTING_LASTS;
use zklockbench_results::{StoredRun, layout};
use zklockbench_scenario::{EnsembleChoice, TrialPlan};
use zklockbench_zk::Access;

/// Default number of blocks: eight pairs are enough to decide six comparisons.
const BLOCKS: u32 = 8;
/// Default margin for every metric; pairing cancels disturbances that affect both sides.
const MARGIN: f64 = 0.05;
/// Default limit on the number of blocks with `--until`.
const BLOCKS_AT_MOST: u32 = 40;
const START: Duration = Duration::from_secs(4);
const WARM_UP: Duration = Duration::from_secs(8);
const FLOOR: Duration = Duration::from_millis(1_500);

pub async fn execute(args: AbArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let a = Side::read(Turn::A, &args, &args.side_a.clone().into()).await?;
    let b = Side::read(Turn::B, &args, &args.side_b.clone().into()).await?;
    let access = args.opening.access.access(a.unnamed().or(b.unnamed()))?;
    let questions = questions(&a, &b, &args.judging.figures, counting(&args))?;
    let versions = compared_drivers(&a, &b)?;
    let length = length(&args, largest_family(&questions))?;
    let shared = a.shares_ensemble_with(&b);
    for side in [&a, &b] {
        let (scenario, access) = (side.scenario(), &args.opening.access);
        Needs::of(scenario).check(scenario, side.locks(), &args.generator, access)?;
    }
    let estimate = Estimate::of(&a, &b, length, &args, &questions);
    announce(&args, &a, &b, &questions, &estimate);
    versions.iter().for_each(|note| output::note(note));
    let (name, asked) = (format!("ab-{}", a.scenario().name), asked(&args, &a, &b));
    let (out, resume) = (&args.out, args.resume.as_deref());
    let mut series = Series::open("ab", Layout::Separate(RUNS), out, Name::Dated(&name), resume, asked)?;
    // Repeat an incomplete block, because all runs of a block must use the same ensembles.
    let whole =
        (1..).find(|number| !Turn::ALL.iter().all(|turn| series.has(&key(*number, *turn)))).unwrap_or(1);
    series.forget(|listed| Turn::ALL.iter().any(|turn| listed == key(whole, *turn)));
    tell_resumed(series.count(), args.opening.quiet);
    let mut under_way = ComparisonInProgress {
        seed: a.scenario().seed,
        terms: terms(&args.judging),
        args,
        sides: BySide { a, b },
        questions,
        length,
        estimate,
        series,
        shared,
        access,
        opened: BTreeMap::new(),
        described: BTreeMap::new(),
        counted: Vec::new(),
        blocks: Vec::new(),
        answers: Vec::new(),
        judged: BySide { a: Verdict::Held, b: Verdict::Held },
    };
    for turn in Turn::ALL {
        if !under_way.is_opened_anew(turn) && under_way.owner(turn) == turn {
            under_way.open(turn, stop).await?;
        }
    }
    let ran = under_way.run(stop).await.map(|()| Ending::Complete);
    under_way.conclude(SeriesEnd::after(ran, Ending::Interrupted, Ending::Aborted))
}

/// Returns when requests can be counted on the wire. TLS hides them, and Kerberos needs the servers' own names.
fn counting(args: &AbArgs) -> CountingWhen {
    let access = &args.opening.access;
    let is_hidden = access.wants_tls() || access.wants_kerberos();
    if is_hidden { CountingWhen::Never } else { args.generator.counting }
}

/// Returns whether counts of requests are compared, so that each run must count them.
fn compares_counts(questions: &[FigureQuestion]) -> bool {
    questions.iter().any(|one| zklockbench_record::is_counted_on_the_wire(one.figure))
}

/// Returns whether the requests of either side are counted.
fn counts(when: CountingWhen, sides: [&Side; 2]) -> bool {
    sides.iter().any(|side| when.counts(side.scenario(), side.locks()))
}

fn planned(questions: &[FigureQuestion]) -> usize {
    questions.iter().filter(|question| !question.only_if_lost).count()
}

/// Returns the number of comparisons in the largest family. Losses form a separate family.
fn largest_family(questions: &[FigureQuestion]) -> usize {
    let losses = questions.iter().filter(|question| counts_losses(question.figure)).count();
    losses.max(questions.len() - losses)
}

/// Returns the terms of the comparison. Loss metrics keep the margins of `compare` unless a margin is set, because
/// 5 % of twenty losses is a single loss.
fn terms(judging: &Judging) -> Terms {
    let mut terms = judging.terms(Some(MARGIN));
    if !judging.has_margin_of_all() {
        for figure in losses() {
            let usual = Terms::default().of(figure).margin;
            terms.margins.entry(figure.to_string()).or_insert(usual);
        }
    }
    terms
}

/// Returns the number of blocks to run. Prints a note if they cannot decide this many comparisons.
fn length(args: &AbArgs, comparisons: usize) -> Result<Length, Error> {
    let outside = args.judging.alpha;
    let needed = |outside: f64| -> Option<u32> {
        Design::Pairs.fewest(outside / comparisons.max(1) as f64)?.try_into().ok()
    };
    // Must be even, because blocks come in mirrored pairs.
    let usual = needed(outside).unwrap_or(BLOCKS).next_multiple_of(2).max(BLOCKS);
    let blocks = args.blocks.unwrap_or(usual);
    let at_most = match (args.until, args.blocks_at_most) {
        (None, _) => blocks,
        (Some(_), None) => blocks.max(BLOCKS_AT_MOST),
        (Some(_), Some(at_most)) if at_most >= blocks => at_most,
        (Some(_), Some(at_most)) => {
            let at_most = counted(at_most, "block", "blocks");
            return Err(Error::usage(format!(
                "--blocks-at-most is {at_most}, fewer than the {blocks} that always run: raise --blocks-at-most or \
                lower --blocks"
            )));
        }
    };
    let length = Length { blocks, until: args.until, at_most, outside };
    if let Some(needed) = needed(length.share(at_most, 0)).filter(|needed| *needed > at_most) {
        output::note(&format!(
            "note: {} cannot decide a family of {}: at least {needed} are needed to show a difference",
            counted(at_most, "block", "blocks"),
            counted(comparisons, "comparison", "comparisons")
        ));
    }
    Ok(length)
}

fn opening(args: &AbArgs, side: &Side, shared: bool) -> OpeningArgs {
    OpeningArgs {
        // The ensemble from `ensemble up` could serve only one side, and has been running longer than a fresh one.
        fresh: args.opening.fresh || !shared,
        install: InstallArgs { zookeeper_home: side.zookeeper_home.clone() },
        ..args.opening.clone()
    }
}

struct Estimate {
    /// Duration of a block, including the time to start the ensembles that it reopens.
    block: Duration,
    /// Time before the first block.
    start: Duration,
    /// Minimum number of blocks.
    blocks: u32,
}

impl Estimate {
    fn of(a: &Side, b: &Side, length: Length, args: &AbArgs, questions: &[FigureQuestion]) -> Self {
        let start = |side: &Side| match side.scenario().ensemble {
            EnsembleChoice::Connect(_) => FLOOR,
            EnsembleChoice::Local { .. } | EnsembleChoice::Compose(_) if args.opening.cold => START,
            EnsembleChoice::Local { .. } | EnsembleChoice::Compose(_) => START + WARM_UP + FLOOR,
        };
        let counts = compares_counts(questions) && counts(counting(args), [a, b]);
        let run = |side: &Side| {
            let trials = if counts { TrialPlan::of(side.scenario()).trials.len() } else { 0 };
            expected(side.scenario()) + COUNTING_LASTS * u32::try_from(trials).unwrap_or(u32::MAX)
        };
        let runs = 2 * run(a) + run(b);
        if a.shares_ensemble_with(b) {
            return Self { block: runs, start: start(a), blocks: length.blocks };
        }
        // Each block starts a local ensemble of side A twice.
        let sides = [(a, if a.scenario().ensemble.is_local() { 2 } else { 1 }), (b, 1)];
        let of = |is_ours: bool| -> Duration {
            sides
                .iter()
                .filter(|(side, _)| side.has_own_servers() == is_ours)
                .map(|(side, times)| start(side) * *times)
                .sum()
        };
        Self { block: runs + of(true), start: of(false), blocks: length.blocks }
    }

    fn whole(&self) -> Duration {
        self.start.saturating_add(self.block.saturating_mul(self.blocks))
    }
}

fn announce(args: &AbArgs, a: &Side, b: &Side, questions: &[FigureQuestion], estimate: &Estimate) {
    if a.differs.is_empty() && b.differs.is_empty() {
        output::note(
            "note: A and B are identical, so the comparison measures only noise (change a side with --a or --b)",
        );
    }
    if !a.scenario().gates.is_empty() {
        output::note("note: `ab` does not judge the scenario's gates; check them with `run`");
    }
    if args.opening.quiet {
        return;
    }
    let told = |side: &Side| zklockbench_report::sides(side.turn, &side.differs);
    output::note(&format!("{}\n{}", told(a), told(b)));
    let anew: Vec<&str> =
        [a, b].iter().filter(|side| side.has_own_servers()).map(|side| side.turn.title()).collect();
    if !a.shares_ensemble_with(b) && !anew.is_empty() {
        output::note(&format!("the servers of {} are restarted for each block", listed(&anew)));
    }
    let blocks = counted(estimate.blocks, "block", "blocks");
    let comparisons = counted(planned(questions), "comparison", "comparisons");
    let more = args.until.map_or_else(String::new, |share| {
        format!("; then more blocks until every interval is within ± {}", percent(share))
    });
    output::note(&format!(
        "{comparisons}; {blocks} of A, B and A again: {} runs, about {}{more}",
        3 * estimate.blocks,
        whole_seconds(estimate.whole())
    ));
}

fn key(block: u32, turn: Turn) -> String {
    format!("{block:03}-{}", turn.name())
}

/// Settings that must be the same when the comparison is resumed; its length and terms may change.
fn asked(args: &AbArgs, a: &Side, b: &Side) -> serde_json::Value {
    let of = |side: &Side| {
        let mut asked = json!({
            "scenario": side.file.text,
            "program": side.program.path.display().to_string(),
            "zookeeper_home": side.zookeeper_home.as_ref().map(|home| home.display().to_string()),
        });
        // Omitted if there are none, so comparisons started by older versions can still be resumed.
        if side.drivers.is_some() {
            asked["drivers"] = json!(side.recorded_drivers());
        }
        asked
    };
    json!({ "a": of(a), "b": of(b), "threads": args.generator.threads })
}

/// A comparison in progress.
///
/// Servers perform slightly differently after each start (leader, memory layout). Sides that share an ensemble
/// never restart it, which avoids this variation. Otherwise, each block reopens both ensembles, and A's ensemble
/// twice, so the variation also affects the two runs of A.
struct ComparisonInProgress {
    args: AbArgs,
    sides: BySide<Side>,
    seed: u64,
    questions: Vec<FigureQuestion>,
    terms: Terms,
    length: Length,
    estimate: Estimate,
    series: Series,
    /// Whether both sides use the same ensemble.
    shared: bool,
    access: Access,
    opened: BTreeMap<Turn, ReadyEnsemble>,
    /// Description and floor of each ensemble, from when it was first opened.
    described: BTreeMap<Turn, (EnsembleInfo, Floor)>,
    /// Requests counted on the wire in the first block.
    counted: Vec<CountedCell>,
    blocks: Vec<BlockRecord>,
    /// Values of each compared metric, from every completed block.
    answers: Vec<(u32, Vec<Answers>)>,
    /// Combined verdict of each side's runs.
    judged: BySide<Verdict>,
}

struct BlockRun {
    record: RunRecord,
    stored: StoredRun,
}

impl BlockRun {
    fn counted(&self) -> impl Iterator<Item = CountedCell> {
        self.stored.trials.iter().filter_map(|trial| {
            let (turn, counting) = (self.record.turn, trial.counting.clone()?);
            Some(CountedCell { turn, cell: CellKey::of(&trial.spec), counting })
        })
    }

    /// Returns the verdict on the valid trials; other blocks can replace invalid trials. A violation counts even in
    /// an invalid trial.
    fn judged(&self) -> Verdict {
        let (trials, verdict) = (&self.stored.trials, &self.record.verdict);
        let all_ran = trials.len() == self.stored.run.planned_trials;
        let told = |trial: &Trial| trial.unsound().is_some() || trial.judged.verdict == Verdict::Held;
        match verdict {
            Verdict::Unknown(_) if all_ran && trials.iter().all(told) => Verdict::Held,
            other => other.clone(),
        }
    }
}

impl ComparisonInProgress {
    /// Returns the turn whose ensemble this turn uses.
    fn owner(&self, turn: Turn) -> Turn {
        match turn {
            _ if self.shared => Turn::A,
            Turn::Again if !self.sides.a.scenario().ensemble.is_local() => Turn::A,
            turn => turn,
        }
    }

    fn is_opened_anew(&self, turn: Turn) -> bool {
        !self.shared && self.owner(turn) == turn && self.sides.of(turn).has_own_servers()
    }

    async fn open(&mut self, turn: Turn, stop: &CancellationToken) -> Result<(), Error> {
        let (side, access) = (self.sides.of(turn), self.access.clone());
        let logs = self.series.server_logs(turn.name());
        let opening = opening(&self.args, side, self.shared);
        let ready = ReadyEnsemble::open(side.scenario(), &opening, access, logs, stop).await?;
        self.described.entry(turn).or_insert_with(|| (ready.ensemble.clone(), ready.floor.clone()));
        self.opened.insert(turn, ready);
        Ok(())
    }

    fn close(&mut self, turn: Turn) {
        self.opened.remove(&turn).into_iter().for_each(ReadyEnsemble::close);
    }

    async fn run(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        let mut number = 1;
        loop {
            self.block(Block::of(self.seed, number), stop).await?;
            let file = self.file(&SeriesEnd::of(Ending::GoingOn));
            file.write(self.series.path())?;
            if self.length.is_over(self.done(), self.spoiled(), &half_widths(&file.comparisons)) {
                return Ok(());
            }
            number += 1;
        }
    }

    async fn block(&mut self, block: Block, stop: &CancellationToken) -> Result<(), Error> {
        let ran_before = Turn::ALL.iter().all(|turn| self.series.has(&key(block.number, *turn)));
        let anew: Vec<Turn> = block.order.into_iter().filter(|turn| self.is_opened_anew(*turn)).collect();
        // If the block has already run, open its ensembles only if none has been described yet.
        let is_needed = !ran_before || self.described.is_empty();
        for turn in anew.iter().filter(|_| is_needed) {
            self.open(*turn, stop).await?;
        }
        let mut done = Vec::new();
        for turn in block.order {
            done.push(self.run_one(&block, turn, stop).await?);
        }
        anew.into_iter().for_each(|turn| self.close(turn));
        let of = |question: &FigureQuestion, turn: Turn| {
            let run = done.iter().find(|one| one.record.turn == turn);
            let silent = || Err(Silence::Unknown("did not run".to_owned()));
            run.map_or_else(silent, |one| question.answer(turn, &one.stored))
        };
        let answers = |question: &FigureQuestion| {
            let [a, b, again] = [Turn::A, Turn::B, Turn::Again].map(|turn| of(question, turn));
            Answers { a, b, again }
        };
        let answers: Vec<Answers> = self.questions.iter().map(answers).collect();
        self.answers.push((block.number, answers));
        if !ran_before {
            self.tell(&block);
        }
        for one in &done {
            let at = |why| format!("{}: {why}", one.record.directory);
            let judged = self.judged.of_mut(one.record.turn);
            *judged = std::mem::replace(judged, Verdict::Held).and(one.judged().with_reasons(at));
        }
        if self.blocks.is_empty() {
            self.counted = done.iter().flat_map(BlockRun::counted).collect();
            self.counted.sort_by_key(|one| one.turn);
        }
        let runs = done.into_iter().map(|one| one.record).collect();
        self.blocks.push(BlockRecord { number: block.number, seed: block.seed, runs });
        Ok(())
    }

    async fn run_one(
        &mut self,
        block: &Block,
        turn: Turn,
        stop: &CancellationToken,
    ) -> Result<BlockRun, Error> {
        let side = self.sides.of(turn);
        let counting = self.counting(block, turn);
        let generator = GeneratorArgs { counting, ..self.args.generator.clone() };
        let scenario = self.series.scenario(side.turn.name(), &side.text)?;
        let (owner, opened) = (self.owner(turn), &self.opened);
        let command = |place: &Path| {
            let missing = || Error::environment(format!("the ensemble of {} is not open", turn.title()));
            let ensemble = opened.get(&owner).ok_or_else(missing)?;
            let seed = vec!["--seed".into(), block.seed.to_string().into()];
            let mut run = ensemble.run(&side.program.path, &scenario, place, generator, None, seed);
            side.drivers.iter().for_each(|drivers| drivers.pass_on(&mut run));
            Ok(run)
        };
        let run = self.series.run(&key(block.number, turn), &(), command, stop).await?;
        // A run without results ends the comparison, because a retry would most likely fail too.
        let which = format!("{} of block {}", turn.title(), block.number);
        let ended = self.opened.values().find_map(|ready| ready.opened.ended());
        let stored = zklockbench_results::read(run.results(&which, ended)?)?;
        let name = run.directory.file_name().unwrap_or_default().to_string_lossy();
        let record = RunRecord {
            turn,
            directory: format!("{RUNS}/{name}"),
            exit_code: run.code,
            took_us: micros(run.took),
            verdict: stored.run.judged.verdict.clone(),
        };
        Ok(BlockRun { record, stored })
    }

    /// Returns when this run counts requests on the wire: only in the first block, unless counts are compared.
    fn counting(&self, block: &Block, turn: Turn) -> CountingWhen {
        let asked = self.args.generator.counting;
        let is_compared = compares_counts(&self.questions);
        match counts(asked, [&self.sides.a, &self.sides.b]) {
            // Keep the default, because an older binary may not support the option.
            false if asked == CountingWhen::Drivers => asked,
            true if is_compared || (block.number == 1 && turn != Turn::Again) => CountingWhen::Always,
            _ => CountingWhen::Never,
        }
    }

    fn done(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of blocks without a complete pair because a run was spoiled.
    fn spoiled(&self) -> u32 {
        let spoiled = self.answers.iter().filter(|(_, each)| each.iter().any(Answers::is_spoiled));
        u32::try_from(spoiled.count()).unwrap_or(u32::MAX)
    }

    fn tell(&self, block: &Block) {
        let Some((_, answers)) = self.answers.last().filter(|_| !self.args.opening.quiet) else { return };
        let planned = self.length.planned(self.spoiled());
        let first = self.questions.iter().zip(answers).next();
        let ratios = first.map_or_else(String::new, |(question, answers)| {
            let over_a = |of: &zklockbench_analysis::ab::Answer| match (&answers.a, of) {
                (Ok(a), Ok(of)) if a.value > 0.0 => number(of.value / a.value),
                _ => "-".to_owned(),
            };
            let (b, again) = (over_a(&answers.b), over_a(&answers.again));
            let each = [(Turn::A, &answers.a), (Turn::B, &answers.b), (Turn::Again, &answers.again)];
            let missing = each.into_iter().find_map(|(turn, answer)| Some((turn, answer.as_ref().err()?)));
            let missing =
                missing.map_or_else(String::new, |(turn, why)| format!(" ({}: {why})", turn.title()));
            format!("{} of {}: B/A {b}, A/A {again}{missing}", question.figure, question.cells)
        });
        let left = match planned.saturating_sub(block.number) {
            0 => String::new(),
            left => format!("; about {} left", whole_seconds(self.pace().saturating_mul(left))),
        };
        output::note(&format!("[{}/{}] {ratios}{left}", block.number, planned.max(block.number)));
    }

    /// Returns the mean duration of the completed blocks.
    fn pace(&self) -> Duration {
        let took: u64 = self.blocks.iter().flat_map(|block| &block.runs).map(|run| run.took_us).sum();
        match self.blocks.len() {
            0 => self.estimate.block,
            blocks => Duration::from_micros(took / blocks as u64),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the time of writing is only a label")]
    fn file(&self, end: &SeriesEnd<Ending>) -> AbFile {
        let outside = self.length.share(self.done(), self.spoiled());
        let terms = Terms { alpha: outside, ..self.terms.clone() };
        let comparisons = compare(&self.questions, &self.answers, self.length.blocks, &terms);
        let mut file = AbFile {
            schema_version: FILE.version,
            tool_version: env!("CARGO_PKG_VERSION").into(),
            tool_commit: tool_commit(),
            scenario: self.sides.a.scenario().name.clone(),
            seed: self.seed,
            host: host::describe(),
            started_at: self.series.started_at(),
            written_at: SystemTime::now(),
            ending: end.ending,
            why: end.why.clone(),
            asked: Asked {
                blocks: self.length.blocks,
                until: self.length.until,
                blocks_at_most: self.length.at_most,
                made_up_at_most: self.length.made_up_at_most(),
                reached: None,
            },
            terms: self.terms.clone(),
            sides: Sides { a: self.side(Turn::A), b: self.side(Turn::B) },
            conclusion: Conclusion::of(&comparisons),
            comparisons,
            counted: self.counted.clone(),
            blocks: self.blocks.clone(),
            resumed_after: self.series.resumed_after().iter().map(|runs| runs / Turn::ALL.len()).collect(),
        };
        file.asked.reached = self.length.is_reached(&half_widths(&file.comparisons));
        file
    }

    fn side(&self, turn: Turn) -> SideRecord {
        let (side, judged) = (self.sides.of(turn), self.judged.of(turn));
        let owner = self.owner(turn);
        let unopened = || (EnsembleInfo::default(), Floor::not_measured("the ensemble was not opened"));
        let (ensemble, floor) = self.described.get(&owner).cloned().unwrap_or_else(unopened);
        SideRecord {
            differs: side.differs.clone(),
            program: side.program.path.clone(),
            program_version: side.program.version.clone(),
            drivers: side.recorded_drivers(),
            scenario_text: side.file.text.clone(),
            opened_anew: self.is_opened_anew(owner),
            ensemble,
            floor,
            judged: judged.clone(),
        }
    }

    fn conclude(self, end: SeriesEnd<Ending>) -> Result<Exit, Error> {
        let file = self.file(&end);
        let Self { args, series, opened, .. } = self;
        let written = file.write(series.path());
        opened.into_values().for_each(ReadyEnsemble::close);
        written?;
        let directory = series.path();
        if !args.no_charts {
            super::report::drawn(zklockbench_report::chart::draw_ab(&file, &directory.join(layout::CHARTS)));
            super::report::write_into(directory, zklockbench_report::page::of_ab(&file));
        }
        if let Some(path) = &args.markdown {
            output::file(path, &zklockbench_report::ab_markdown(&file))?;
        }
        let exit = file.ending.of_a_run().exit(&file.judged().and(file.conclusion.verdict()));
        let resume = (end.ending != Ending::Complete).then(|| how_to_resume(directory));
        let aborted = end.ending == Ending::Aborted;
        let error = aborted.then(|| Error::environment(end.why.unwrap_or_default()));
        let results = directory.display().to_string();
        let found = || json!({ "results": results, "resume": resume, "ab": file });
        let whole = || {
            let (table, resume) =
                (zklockbench_report::ab(&file, output::style()), to_resume(resume.as_deref()));
            format!("{table}\n{}{resume}", where_results_are(directory))
        };
        output::conclude("ab", exit, error, found, || {
            output::outcome(args.opening.quiet, &zklockbench_report::ab_headline(&file), whole)
        })
    }
}

/// Returns the half-width of each interval; `None` while the pairs are too few for a verdict.
fn half_widths(comparisons: &[Comparison]) -> Vec<Option<f64>> {
    let with_pairs = comparisons.iter().filter(|one| one.pairs > 0);
    let half_width = |one: &Comparison| {
        let ratio = one.in_family.filter(Interval::is_bounded).and(one.ratio)?;
        match one.scale {
            Scale::Values => ratio.half_width(),
            Scale::SharesLost => Some((ratio.high - ratio.low) / 2.0).filter(|half| half.is_finite()),
        }
    };
    with_pairs.map(half_width).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Cli, Command};
    use zklockbench_analysis::ab::CellPair;
    use zklockbench_analysis::compare::ComparisonVerdict;
    use zklockbench_record::Reading;
    use zklockbench_record::figures::THROUGHPUT;

    fn parsed(scenario: &str, more: &[&str]) -> AbArgs {
        let words = [&["zklockbench", "ab", scenario], more].concat();
        match Cli::try_parse_from(words).unwrap().command {
            Command::Ab(args) => *args,
            _ => panic!("`ab` was not parsed"),
        }
    }

    #[test]
    fn requests_are_not_counted_if_the_connection_hides_them() {
        let counting = |more: &[&str]| counting(&parsed("x.toml", more));
        assert_eq!(counting(&[]), CountingWhen::Drivers);
        assert_eq!(counting(&["--tls", "--connect", "zk1:2281"]), CountingWhen::Never);
        assert_eq!(counting(&["--sasl", "gssapi", "--connect", "zk1:2181"]), CountingWhen::Never);
        assert_eq!(counting(&["--sasl", "user", "--connect", "zk1:2181"]), CountingWhen::Drivers);
    }

    #[tokio::test]
    async fn estimate_includes_the_trials_that_count_requests() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = [2, 3]\nduration = \"1s\"\n";
        std::fs::write(file.path(), text).unwrap();
        let mut blocks = Vec::new();
        for figure in ["throughput", "requests_per_acquisition"] {
            let more = ["--counting", "always", "--figure", figure];
            let args = parsed(file.path().to_str().unwrap(), &more);
            let a = Side::read(Turn::A, &args, &args.side_a.clone().into()).await.unwrap();
            let b = Side::read(Turn::B, &args, &args.side_b.clone().into()).await.unwrap();
            let asked = questions(&a, &b, &args.judging.figures, counting(&args)).unwrap();
            let length = length(&args, largest_family(&asked)).unwrap();
            blocks.push(Estimate::of(&a, &b, length, &args, &asked).block);
        }
        // Three runs of two trials
        assert_eq!(blocks[1] - blocks[0], 6 * COUNTING_LASTS);
    }

    #[test]
    fn narrow_intervals_end_a_comparison_only_if_its_blocks_suffice_for_a_verdict() {
        let cell = CellKey { strategy: "baton".into(), contenders: 5 };
        let cells = CellPair { a: cell.clone(), b: cell };
        let questions = vec![FigureQuestion { cells, figure: THROUGHPUT.figure(), only_if_lost: false }; 2];
        let block = |number: u32| {
            let of = |value| Ok(Reading::exact(value));
            let b = 80.0 + f64::from(number) / 100.0;
            (number, vec![Answers { a: of(100.0), b: of(b), again: of(100.0) }; 2])
        };
        let length = Length { blocks: 8, until: Some(0.03), at_most: 40, outside: 0.05 };
        let ends = |done: u32| {
            let terms = Terms { alpha: length.share(done, 0), ..Terms::of_one_margin(MARGIN) };
            let found = compare(&questions, &(1..=done).map(block).collect::<Vec<_>>(), 8, &terms);
            (length.is_over(done, 0, &half_widths(&found)), found[0].verdict)
        };
        assert_eq!(ends(8), (false, ComparisonVerdict::Inconclusive));
        assert_eq!(ends(11), (true, ComparisonVerdict::Regressed));
    }
}
