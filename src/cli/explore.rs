//! `explore`: tries every fault, and every order of a lock's requests, on a real server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::args::ExploreArgs;
use super::run::open_ensemble::{Needs, OpenEnsemble, examine};
use super::run::progress::Progress;
use super::runs::reads;
use super::shared_args::PlaceArgs;
use super::{drivers, listing, output};

use zklockbench_core::catalog::{Holders, LockCard};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{as_a_word, counted};
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::{links_capability, roles};
use zklockbench_explore::{
    Explored, Finding, Held, Lock, RELEASES, Schedule, Scope, Seen, Servers, Site, Tally, TraceStep,
    class_names, contender_name, explore, replay,
};
use zklockbench_locks::leases_of;
use zklockbench_record::{RunEnding, StepKind};
use zklockbench_report::picture::{Picture, Row};
use zklockbench_report::{Columns, Style};
use zklockbench_scenario::Scenario;
use zklockbench_zk::Target;

/// Version of case files.
const CASE: u32 = 1;
const COMMAND: &str = "explore";
const MOST_CONTENDERS: u8 = 8;

/// A failing schedule, with everything needed to replay it.
#[derive(Debug, Serialize, Deserialize)]
struct Case {
    case: u32,
    suite: String,
    lock: String,
    servers: Vec<String>,
    schedule: Schedule,
    expects: String,
    sentence: String,
    trace: Vec<TraceStep>,
}

pub async fn execute(mut args: ExploreArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let case = args.replay.as_deref().map(read_case).transpose()?;
    if case.as_ref().is_some_and(|case| case.schedule.moves()) && is_local(&args.place) {
        let is_stale = case.as_ref().is_some_and(|case| case.schedule.makes_stale());
        args.place.servers = args.place.servers.or(Some(if is_stale { 5 } else { 3 }));
    }
    let apart = can_be_stale(&args.place);
    let labels = labels(&args, case.as_ref())?;
    let locks = labels.iter().map(|label| lock(label)).collect::<Result<Vec<_>, _>>()?;
    let needs = if apart.is_ok() { Needs::separable_servers() } else { Needs::default() };
    examine(COMMAND, &args.place, &args.opening, stop, &needs, async |opened, progress, root| {
        let held = match (&apart, &opened.started) {
            (Ok(()), Some(started)) => Held::of(Arc::clone(started)).await,
            (Err(why), Some(_)) => Err(why.clone()),
            (_, None) => Err("the servers were not started for this exploration".to_owned()),
        };
        let reached = Servers::of(&opened.addresses, held).map_err(Error::environment)?;
        let _awake = keep_awake(opened).await?;
        let (servers, chroot) = opened.target.parts();
        let site = |lock: Lock, contenders: usize| Site {
            lock,
            // Connect without the chroot, because paths in messages are absolute.
            target: Target { connect: servers.to_owned(), access: opened.target.access.clone() },
            servers: reached.clone(),
            root: format!("{chroot}{root}"),
            contenders,
            worlds: args.worlds.into(),
        };
        match case {
            Some(case) => again(locks, &case, site, stop).await,
            None => all(locks, &args, site, &opened.addresses, progress, stop).await,
        }
    })
    .await
}

fn is_local(place: &PlaceArgs) -> bool {
    place.connect.is_none() && place.compose.is_none()
}

/// Checks that the command starts enough local servers for one of them to become stale.
fn can_be_stale(place: &PlaceArgs) -> Result<(), String> {
    let least = Held::LEAST;
    let servers = place.servers.and_then(|servers| usize::try_from(servers).ok());
    if !is_local(place) || servers.is_none_or(|servers| servers < least) {
        return Err(format!("needs a local ensemble of at least {least} servers"));
    }
    links_capability()
}

/// Starts reads that keep the servers awake if their version may leave a request unprocessed.
async fn keep_awake(opened: &OpenEnsemble) -> Result<Option<DropGuard>, Error> {
    if opened.addresses.len() == 1 {
        return Ok(None);
    }
    let is_needed = opened.keep_awake(&opened.describe().await.servers).is_some();
    is_needed.then(|| reads(opened)).transpose()
}

fn labels(args: &ExploreArgs, case: Option<&Case>) -> Result<Vec<String>, Error> {
    match case {
        Some(case) => Ok(vec![case.lock.clone()]),
        None if args.all => Ok(exclusive(false).map(str::to_owned).collect()),
        None if args.strategies.is_empty() => {
            Err(Error::usage("specify a strategy, e.g. `zklockbench explore curator-mutex`, or use --all"))
        }
        None => Ok(args.strategies.clone()),
    }
}

/// Returns the names of all exclusive locks of ZooKeeper or, if `is_other`, of other systems.
fn exclusive(is_other: bool) -> impl Iterator<Item = &'static str> {
    let is_it = move |card: &LockCard| card.guarantees.exclusive && card.other_system().is_some() == is_other;
    zklockbench_locks::cards().into_iter().filter(is_it).map(|card| card.name)
}

/// Parses the label of a lock: a name, followed by any number of `parameter=value`.
fn lock(label: &str) -> Result<Lock, Error> {
    let mut words = label.split_whitespace();
    let name = words.next().unwrap_or_default();
    let card = listing::strategy(name).map_err(|error| missing_driver(name).unwrap_or(error))?;
    refuse_if!(
        card.other_system().is_some(),
        "`{name}` is not a ZooKeeper lock; `explore` supports only ZooKeeper's protocol"
    );
    let mut set: Vec<String> = words.map(setting).collect::<Result<_, _>>()?;
    // Default to a single lease: with more leases, two contenders would never wait for each other.
    if let Holders::Leases(leases) = card.guarantees.holders
        && !set.iter().any(|one| one.starts_with(&format!("{leases} =")))
    {
        set.push(format!("{leases} = 1"));
    }
    let fields: Vec<String> = [format!("name = {}", quoted(name))].into_iter().chain(set).collect();
    let scenario = parsed(&format!("{{ {} }}", fields.join(", ")))?;
    let none = || Error::usage(format!("no strategy `{label}`"));
    let choice = scenario.strategies.into_iter().next().ok_or_else(none)?;
    let entry = zklockbench_locks::find(&choice.name).ok_or_else(none)?;
    let driven = zklockbench_locks::driven(&choice.name).copied();
    Ok(Lock { label: choice.label, entry: *entry, params: choice.params, driven })
}

/// Returns the error for a lock whose driver is missing from the command line.
fn missing_driver(name: &str) -> Option<Error> {
    let (driver, _) = name.split_once(':')?;
    let prefix = format!("{driver}:");
    let is_known = zklockbench_locks::cards().iter().any(|card| card.name.starts_with(&prefix));
    (!is_known).then(|| {
        Error::usage(format!(
            "`{name}` is a driver's lock: add --driver {driver}=COMMAND to specify its program"
        ))
    })
}

/// Returns the default number of contenders: a semaphore's leases plus one, up to the maximum; otherwise two.
fn contenders(lock: &Lock) -> u8 {
    match lock.entry.card.guarantees.holders {
        Holders::Leases(leases) => {
            let leases = leases_of(&lock.params, leases).min(u32::from(MOST_CONTENDERS) - 1);
            u8::try_from(leases + 1).unwrap_or(MOST_CONTENDERS)
        }
        Holders::One | Holders::ReadersOrOneWriter => 2,
    }
}

fn setting(word: &str) -> Result<String, Error> {
    let (name, value) = word.split_once('=').ok_or_else(|| {
        Error::usage(format!(
            "`{word}` is not a parameter: write `name=value` after the strategy, and quote both as one argument"
        ))
    })?;
    let is_plain = value.parse::<i64>().is_ok() || matches!(value, "true" | "false");
    Ok(format!("{name} = {}", if is_plain { value.to_owned() } else { quoted(value) }))
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn parsed(strategy: &str) -> Result<Scenario, Error> {
    let text =
        format!("name = \"{COMMAND}\"\nstrategies = [{strategy}]\ncontenders = 2\nduration = \"1s\"\n");
    let parsed = zklockbench_scenario::parse("the strategy", &text, &zklockbench_load::catalog());
    Ok(parsed?.scenario)
}

async fn again(
    locks: Vec<Lock>,
    case: &Case,
    site: impl Fn(Lock, usize) -> Site,
    stop: &CancellationToken,
) -> Result<Exit, Error> {
    let lock = locks.into_iter().next().ok_or_else(|| Error::usage("the case contains no lock"))?;
    let (site, schedule) = (site(lock, case.schedule.contenders), case.schedule.clone());
    let (contenders, expected) = (schedule.contenders, case.trace.clone());
    let is_stopped = stop.clone();
    let outcome =
        apart(stop, move || replay(&site, &schedule, &expected, || is_stopped.is_cancelled())).await?;
    if stop.is_cancelled() {
        return Err(Error::Interrupted);
    }
    let not_as_asked = outcome.unexplored.as_ref().or(outcome.impossible.as_ref());
    let (exit, headline) = match (&outcome.fault, not_as_asked) {
        (Some(fault), _) => (Exit::Violated, format!("{}: {}", fault.word(), outcome.sentence)),
        (None, Some(why)) => (Exit::Unknown, format!("not replayed as recorded: {why}")),
        (None, None) => (Exit::Held, format!("held; the case expects: {}", case.expects)),
    };
    let found = json!({ "headline": headline, "trace": outcome.trace });
    output::tell(COMMAND, exit, &found, || {
        let picture = picture(&outcome.trace, outcome.entry, contenders);
        output::data(&format!("{headline}\n\n{}\n{}", picture.text(), picture.legend()))
    })
}

/// Runs the work on another thread. If the user stops the command, the work returns its findings so far, or fails.
async fn apart<T: Send + 'static>(
    stop: &CancellationToken,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| Error::environment(format!("the exploration failed: {error}")))?;
    done.map_err(|error| if stop.is_cancelled() { Error::Interrupted } else { error })
}

async fn all(
    locks: Vec<Lock>,
    args: &ExploreArgs,
    site: impl Fn(Lock, usize) -> Site,
    servers: &[String],
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<Exit, Error> {
    let ends = Instant::now() + args.budget;
    let (mut explored, mut failure, count) = (Vec::new(), None, locks.len());
    let others = if args.all { exclusive(true).collect() } else { Vec::new() };
    if !others.is_empty() {
        progress.note(&format!("not explored, because they are not ZooKeeper locks: {}", others.join(", ")));
    }
    for (number, lock) in locks.into_iter().enumerate() {
        progress.note(&format!("exploring {}", lock.label));
        // Later locks share the unused budget of earlier locks.
        let left = u32::try_from(count - number).unwrap_or(u32::MAX);
        let budget = ends.saturating_duration_since(Instant::now()) / left;
        let scope = Scope { budget, pairs: args.pairs };
        let contenders = args.contenders.unwrap_or_else(|| contenders(&lock));
        let label = lock.label.clone();
        let (site, is_stopped) = (site(lock, contenders.into()), stop.clone());
        match apart(stop, move || explore(&site, scope, || is_stopped.is_cancelled())).await {
            Ok(one) => explored.push(one),
            Err(error) if count == 1 => failure = Some(error),
            Err(error) => {
                let error = error.about(&label);
                progress.note(&error.to_string());
                failure = failure.or(Some(error));
            }
        }
        if stop.is_cancelled() {
            failure = Some(Error::Interrupted);
            break;
        }
    }
    if explored.is_empty() {
        return failure.map_or(Ok(Exit::Held), Err);
    }
    let files = write_cases(args, &explored, servers)?;
    let verdict = explored.iter().map(verdict).fold(Verdict::Held, Verdict::and);
    let exit = failure.as_ref().map_or_else(|| RunEnding::Complete.exit(&verdict), Error::exit);
    let headline = headline(&explored);
    let zookeeper = roles(servers).await.into_iter().find_map(|role| role.version);
    let (cases, style) = (output::paths(&files), output::style());
    let found = json!({ "headline": headline, "zookeeper": zookeeper, "explored": explored, "cases": cases });
    output::conclude(
        COMMAND,
        exit,
        failure,
        || found,
        || output::outcome(args.opening.quiet, &headline, || text(&headline, &explored, &files, style)),
    )
}

/// Draws a trace, shaded from the violating acquisition until a holder releases.
fn picture(trace: &[TraceStep], entry: Option<usize>, contenders: usize) -> Picture {
    // The newcomer is numbered after the last contender.
    let lanes = trace.iter().map(|step| step.contender + 1).max().unwrap_or(0).max(contenders);
    let entry = entry.unwrap_or(trace.len());
    let ends = |step: &TraceStep| step.kind == StepKind::Deed && step.what == RELEASES;
    let overlap = trace.iter().skip(entry).position(ends).map_or(trace.len(), |after| entry + after);
    let rows = trace.iter().enumerate().map(|(at, step)| Row {
        at: None,
        lane: Some(step.contender),
        kind: step.kind,
        what: step.what.clone(),
        is_shaded: (entry..overlap).contains(&at),
    });
    let name = |lane| if lane < contenders { contender_name(lane) } else { "newcomer".to_owned() };
    Picture { lanes: (0..lanes).map(name).collect(), rows: rows.collect() }
}

fn verdict(explored: &Explored) -> Verdict {
    let total = explored.total();
    let count = |count, one: &str, many: &str| (count > 0).then(|| counted(count, one, many));
    let broken = count(total.failed(), "schedule broke a guarantee", "schedules broke a guarantee");
    let missing = total.unexplored + total.flaky;
    let unexplored = count(missing, "schedule was not explored", "schedules were not explored");
    Verdict::violated_if(Vec::from_iter(broken)).and(Verdict::unknown_if(Vec::from_iter(unexplored)))
}

fn headline(all: &[Explored]) -> String {
    let [one] = all else {
        let of = |is: fn(&Tally) -> bool| all.iter().filter(|one| is(&one.total())).count();
        let broken = of(|total| total.failed() > 0);
        let unsure = of(|total| total.failed() == 0 && total.unexplored + total.flaky > 0);
        let partly = if unsure > 0 { format!(", {unsure} only partly explored") } else { String::new() };
        return format!("{}: {broken} broken{partly}", counted(all.len(), "lock", "locks"));
    };
    let total = one.total();
    let held = counted(total.held, "schedule", "schedules");
    match (one.findings.first(), total.unexplored + total.flaky) {
        (Some(worst), _) => format!("{}: {}", one.lock, described(worst)),
        (None, 0) => format!("{}: held in {held}", one.lock),
        (None, left) => format!("{}: held in {held}, and {left} not explored", one.lock),
    }
}

fn described(finding: &Finding) -> String {
    let Seen { times, runs } = finding.seen;
    let (word, sentence) = (finding.fault.word(), &finding.sentence);
    format!("{word}: {sentence} (seen in {times} of {})", counted(runs as usize, "run", "runs"))
}

fn text(headline: &str, all: &[Explored], files: &[PathBuf], style: Style) -> String {
    let mut text = format!("{headline}\n\n");
    for one in all {
        if all.len() > 1 {
            let _ = writeln!(text, "{}", one.lock);
        }
        let _ = writeln!(text, "{}", table(one, style));
        let rate = format!("{:.0}", one.schedules_per_minute);
        let _ = writeln!(text, "{} contenders, {rate} schedules a minute\n", one.contenders);
        one.unexplored.iter().for_each(|why| {
            let _ = writeln!(text, "not explored: {why}");
        });
        let impossible = one.total().impossible;
        if impossible > 0 {
            let schedules = counted(impossible, "schedule", "schedules");
            let _ =
                writeln!(text, "impossible: {schedules}, e.g. a message delayed until after its own effect");
        }
        let _ = writeln!(text, "not tried: {}", one.not_tried.join("; "));
        for finding in one.findings.iter().skip(usize::from(all.len() == 1)).take(4) {
            let _ = writeln!(text, "{}", described(finding));
        }
    }
    if let ([one], Some(file)) = (all, files.first())
        && let Some(worst) = one.findings.first()
    {
        let picture = picture(&worst.trace, worst.entry, worst.schedule.contenders);
        let _ = writeln!(
            text,
            "\n{}{}\nreplay with: zklockbench explore --replay {}{}",
            picture.text(),
            picture.legend(),
            as_a_word(&file.display().to_string()),
            drivers::options()
        );
    }
    text
}

/// Returns the outcomes of a lock's schedules by class.
fn table(one: &Explored, style: Style) -> String {
    let classes = class_names().into_iter().filter_map(|name| Some((name, *one.classes.get(name)?)));
    let grid = Columns::<(&'static str, Tally)>::new()
        .words("schedules", |(name, _)| *name)
        .numbers("held", 0, |(_, tally)| tally.held)
        .numbers("zombies", 3, |(_, tally)| tally.zombies)
        .numbers("violated", 0, |(_, tally)| tally.violated)
        .numbers("stuck", 1, |(_, tally)| tally.stuck)
        .numbers("refused", 1, |(_, tally)| tally.refused)
        .numbers("out of order", 1, |(_, tally)| tally.out_of_order)
        .numbers("node left", 1, |(_, tally)| tally.node_left)
        .numbers("unexplored", 2, |(_, tally)| tally.unexplored + tally.flaky)
        .table("", 1, classes.chain([("all", one.total())]));
    output::table(grid, style)
}

/// Writes each finding as a case, a text and a picture; returns the case files.
fn write_cases(args: &ExploreArgs, all: &[Explored], servers: &[String]) -> Result<Vec<PathBuf>, Error> {
    let findings = all
        .iter()
        .flat_map(|one| (1..).zip(&one.findings).map(move |(number, finding)| (one, number, finding)));
    let write = |(one, number, finding): (&Explored, usize, &Finding)| {
        let case = Case {
            case: CASE,
            suite: env!("CARGO_PKG_VERSION").to_owned(),
            lock: one.lock.clone(),
            servers: servers.to_vec(),
            schedule: finding.schedule.clone(),
            expects: finding.fault.word().to_owned(),
            sentence: finding.sentence.clone(),
            trace: finding.trace.clone(),
        };
        let picture = picture(&finding.trace, finding.entry, finding.schedule.contenders);
        let text = format!("{}\n\n{}{}\n", described(finding), picture.text(), picture.legend());
        let json = serde_json::to_string_pretty(&case).map_err(Error::environment)?;
        let name = format!("{}-{number}.json", one.lock.replace([' ', ':', '/', '='], "-"));
        let file = args.out.join(name);
        std::fs::create_dir_all(&args.out).map_err(Error::cannot("create", &args.out))?;
        output::file(&file, &(json + "\n"))?;
        output::file(&file.with_extension("txt"), &text)?;
        output::file(&file.with_extension("svg"), &picture.svg())?;
        Ok(file)
    };
    findings.map(write).collect()
}

fn read_case(file: &Path) -> Result<Case, Error> {
    let wrong = |what: String| Error::usage(format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let case: Case =
        serde_json::from_str(&text).map_err(|error| wrong(format!("not an exploration case: {error}")))?;
    let contenders = case.schedule.contenders;
    let victims = case.schedule.decisions.iter().filter_map(|one| one.victim);
    let stranger = victims.chain(case.schedule.readers.iter().copied()).find(|one| *one >= contenders);
    match (case.case, contenders, stranger) {
        (CASE, 1..=8, None) => Ok(case),
        (CASE, 1..=8, Some(victim)) => Err(wrong(format!(
            "contender {victim} does not exist: the case has only {contenders} contenders"
        ))),
        (CASE, count, _) => Err(wrong(format!("`contenders` is {count}, but must be between 1 and 8"))),
        (other, ..) => Err(wrong(format!("case version is {other}, but only {CASE} is supported"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategy_label_is_a_name_with_parameters() {
        let explored = lock("predecessor-watch watch=exists").unwrap();
        assert_eq!(explored.label, "predecessor-watch watch=exists");
        assert!(lock("curator-mutexx").unwrap_err().to_string().contains("curator-mutex"));
        assert!(lock("curator-mutex fast").unwrap_err().to_string().contains("`fast` is not a parameter"));
        assert!(lock("curator-mutex fast=1").is_err());
    }

    #[test]
    fn semaphores_have_one_lease_by_default() {
        assert!(lock("curator-semaphore").unwrap().label.contains("leases=1"));
        assert!(lock("curator-semaphore leases=2").unwrap().label.contains("leases=2"));
    }

    #[test]
    fn default_number_of_contenders_is_the_leases_plus_one_up_to_the_maximum() {
        let of = |label: &str| contenders(&lock(label).unwrap());
        let labels = [
            "curator-mutex",
            "curator-semaphore",
            "curator-semaphore leases=2",
            "curator-semaphore leases=9",
        ];
        assert_eq!(labels.map(of), [2, 2, 3, 8]);
    }

    fn explored(tally: Tally) -> Explored {
        Explored {
            lock: "count".to_owned(),
            contenders: 2,
            events: Vec::new(),
            classes: [("abandoned wait".to_owned(), tally)].into(),
            findings: Vec::new(),
            unexplored: Vec::new(),
            not_tried: Vec::new(),
            took_us: 1,
            schedules_per_minute: 1.0,
        }
    }

    #[test]
    fn failure_that_did_not_recur_does_not_count_as_held() {
        let tally = Tally { held: 10, flaky: 2, unexplored: 1, ..Tally::default() };
        assert_eq!(headline(&[explored(tally)]), "count: held in 10 schedules, and 3 not explored");
    }

    #[test]
    fn table_shows_every_kind_of_failure_in_80_columns_and_no_column_of_zeros() {
        let held = Tally { held: 12_345, ..Tally::default() };
        let failed = Tally { violated: 3, stuck: 4, refused: 5, out_of_order: 6, node_left: 7, ..held };
        let all = Tally { zombies: 8, unexplored: 9, ..failed };
        let kinds = "schedules held violated stuck refused out of order node left";
        for (tally, heading) in [(held, "schedules held violated"), (failed, kinds), (all, kinds)] {
            let text = text("", &[explored(tally)], &[], Style::default());
            let table: Vec<&str> = text.lines().skip_while(|line| line.is_empty()).take(4).collect();
            assert_eq!(table[0].split_whitespace().collect::<Vec<_>>().join(" "), heading, "{text}");
            assert!(table.iter().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn unknown_driver_error_names_the_missing_option() {
        let error = lock("q:MyLock").unwrap_err().to_string();
        assert!(error.contains("add --driver q=COMMAND"), "{error}");
    }

    #[test]
    fn case_of_another_version_is_rejected() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let case = |version: u32| {
            json!({ "case": version, "suite": "0.1.0", "lock": "count", "servers": [], "schedule": { "contenders": 2 },
                    "expects": "stuck", "sentence": "", "trace": [] })
        };
        std::fs::write(file.path(), case(2).to_string()).unwrap();
        assert!(read_case(file.path()).unwrap_err().to_string().contains("case version is 2"));
        std::fs::write(file.path(), case(1).to_string()).unwrap();
        assert_eq!(read_case(file.path()).unwrap().lock, "count");
        std::fs::write(file.path(), "{}").unwrap();
        assert!(read_case(file.path()).unwrap_err().to_string().contains("not an exploration case"));
    }
}
