//! A/B comparisons: conclusions from blocks of runs, and the output.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::{json_schema::Schema, records};
use zklockbench_analysis::ab::{
    AbFile, Answer, Answers, Asked, Block, BlockRecord, CellPair, Comparison, Conclusion, Ending, FILE,
    FigureQuestion, Length, RunRecord, SideRecord, Sides, Silence, Turn, compare,
};
use zklockbench_analysis::compare::{ComparisonVerdict as Found, Regression, Terms};
use zklockbench_core::{measure::Outcome, verdict::Verdict};
use zklockbench_record::{CellKey, Floor, Reading, Trial, figures};
use zklockbench_report::{Style, html, page};

fn terms() -> Terms {
    Terms::of_one_margin(0.05)
}

fn question(figure: &str) -> FigureQuestion {
    let cell = CellKey { strategy: "baton".into(), contenders: 5 };
    FigureQuestion {
        cells: CellPair { a: cell.clone(), b: cell },
        figure: figures::named(figure).unwrap(),
        only_if_lost: false,
    }
}

fn known(value: f64) -> Answer {
    Ok(Reading { value, at_least: false, samples: None })
}

fn answers(a: f64, b: f64, again: f64) -> Answers {
    Answers { a: known(a), b: known(b), again: known(again) }
}

/// Compares one metric over these blocks.
fn judged(figure: &str, blocks: Vec<Answers>) -> Comparison {
    let asked = u32::try_from(blocks.len()).unwrap();
    judged_of(figure, blocks, asked)
}

/// Like [`judged`], with `asked` as the planned minimum number of blocks.
fn judged_of(figure: &str, blocks: Vec<Answers>, asked: u32) -> Comparison {
    let blocks: Vec<_> = (1..).zip(blocks.into_iter().map(|one| vec![one])).collect();
    compare(&[question(figure)], &blocks, asked, &terms()).remove(0)
}

fn spoiled() -> Answer {
    Err(Silence::Spoiled("its trial is invalid (late)".into()))
}

/// Blocks on a host that gradually becomes twice as slow. Each run has this much noise, and B takes `slower`
/// times as long as A.
fn drifting(seed: u64, blocks: u32, noise: f64, slower: f64) -> Vec<Answers> {
    let mut draw = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0.0;
    let of_block = |number| {
        let mut answers = answers(0.0, 0.0, 0.0);
        for turn in Block::of(seed, number).order {
            at += 1.0;
            let drift = 1.0 + at / (3.0 * f64::from(blocks));
            let own = if turn == Turn::B { slower } else { 1.0 };
            let value = known(10_000.0 * drift * own * (1.0 + draw.random_range(-noise..noise)));
            match turn {
                Turn::A => answers.a = value,
                Turn::B => answers.b = value,
                Turn::Again => answers.again = value,
            }
        }
        answers
    };
    (1..=blocks).map(of_block).collect()
}

#[test]
fn a_20_percent_longer_wait_is_detected_while_the_host_becomes_twice_as_slow() {
    for seed in 0..200 {
        let found = judged("wait.p50", drifting(seed, 8, 0.03, 1.2));
        assert_eq!(found.verdict, Found::Regressed, "{seed}: {found:?}");
        let ratio = found.ratio.unwrap();
        assert!(ratio.low > 1.1 && ratio.high < 1.3, "{ratio:?}");
    }
}

#[test]
fn noise_and_drift_rarely_cause_a_false_difference() {
    let alarms = (0..1_000).filter(|seed| {
        let found = judged("wait.p50", drifting(*seed, 8, 0.15, 1.0));
        !matches!(found.verdict, Found::Same | Found::Inconclusive)
    });
    let alarms = alarms.count();
    assert!(alarms <= 50, "{alarms} of 1,000");
    // With less noise, the verdict is *same*.
    assert_eq!(judged("wait.p50", drifting(1, 24, 0.01, 1.0)).verdict, Found::Same);
}

#[test]
fn intervals_of_early_stopped_comparisons_contain_the_true_value() {
    let length = Length { blocks: 8, until: Some(0.03), at_most: 20, outside: 0.05 };
    let stopped = |seed: u64| {
        // Given noise low enough that some intervals become narrow before the last block
        let blocks: Vec<_> =
            (1..).zip(drifting(seed, 20, 0.04, 1.1).into_iter().map(|one| vec![one])).collect();
        for done in 8_usize.. {
            let terms = Terms { alpha: length.share(done as u32, 0), ..terms() };
            let found = compare(&[question("wait.p50")], &blocks[..done], 8, &terms).remove(0).ratio.unwrap();
            let half_widths = [found.half_width()];
            if length.is_over(done as u32, 0, &half_widths) {
                return (done < 20, found.contains(1.1));
            }
        }
        unreachable!()
    };
    let all: Vec<(bool, bool)> = (0..300).map(stopped).collect();
    let count = |is_it: fn(&(bool, bool)) -> bool| all.iter().filter(|one| is_it(one)).count();
    let (early, missed) = (count(|(early, _)| *early), count(|(_, contains)| !contains));
    println!("{early} stopped early, {missed} missed of {}", all.len());
    assert!(early >= 100, "{early}");
    // At 5 % of 300, 15 misses are expected, and two standard errors are about 8.
    assert!(missed <= 15 + 8, "{missed}");
}

/// Eight blocks. `b` and `again` compute the values of B and of the repeated A from the value of A. A small
/// offset that grows from block to block is added.
fn blocks(b: impl Fn(f64) -> f64, again: impl Fn(f64) -> f64) -> Vec<Answers> {
    let block = |at: u32| {
        let (a, more) = (100.0 + f64::from(at), f64::from(at) / 1e3);
        answers(a, b(a) + more, again(a) + more)
    };
    (1..=8).map(block).collect()
}

fn times(ratio: f64) -> Vec<Answers> {
    blocks(|a| a * (ratio + (a - 100.0) / 1e4), |a| a)
}

/// Blocks in which B takes `slower` times as long as A, modified by `change`.
fn changed(blocks: u32, slower: f64, change: impl Fn(&mut [Answers])) -> Vec<Answers> {
    let mut blocks = drifting(1, blocks, 0.01, slower);
    change(&mut blocks);
    blocks
}

/// Equal sides with this many samples in each run.
fn sampled(samples: u64) -> Vec<Answers> {
    let sampled = |answer: Answer| answer.map(|reading| Reading { samples: Some(samples), ..reading });
    let block = |Answers { a, b, again }| Answers { a: sampled(a), b: sampled(b), again: sampled(again) };
    times(1.0).into_iter().map(block).collect()
}

fn described(found: &Comparison) -> String {
    let Comparison { verdict, regression, pairs, pairs_needed, ratio, why, .. } = found;
    let ratio =
        ratio.map(|of| format!("{:.3} ({:.3} to {:.3})", of.value, of.low, of.high)).unwrap_or_default();
    let needed = pairs_needed.map(|needed| format!(", needs {needed}")).unwrap_or_default();
    let why = why.as_deref().unwrap_or("-");
    format!("{verdict:?}, {regression:?}, {ratio} of {pairs} pairs{needed}: {why}\n")
}

#[test]
fn verdicts_of_ab_blocks_match_the_snapshot() {
    let mut said = String::new();
    let mut add = |name: &str, found: Vec<Comparison>| {
        let conclusion = Conclusion::of(&found);
        said += &format!("{name}: {conclusion:?}\n{}", found.iter().map(described).collect::<String>());
    };
    for (figure, ratios) in [
        ("throughput", &[0.8, 1.3][..]),
        ("wait.p99", &[0.8, 1.3]),
        ("hold.p50", &[0.8, 1.0]),
        ("wait.p50", &[1.03, 1.0497, 1.06]),
    ] {
        for ratio in ratios {
            add(&format!("{figure} times {ratio}"), vec![judged(figure, times(*ratio))]);
        }
    }
    let lost = |at: usize| move |blocks: &mut [Answers]| blocks[at].b = spoiled();
    let late = |blocks: &mut [Answers]| blocks[0].a = Err(Silence::Spoiled("late".into()));
    let unknown = Answers { b: Err(Silence::Unknown("not measured".into())), ..answers(1.0, 1.0, 1.0) };
    for (name, blocks) in [
        ("three pairs, twice as long", drifting(1, 3, 0.01, 2.0)),
        ("a side with different repeated results", blocks(|a| 1.5 * a, |a| 1.4 * a)),
        ("equal, one B run lost", changed(24, 1.0, lost(2))),
        ("faster, one B run lost", changed(24, 0.5, lost(2))),
        ("slower, one B run lost", changed(24, 1.5, lost(2))),
        ("six pairs, one A run lost", changed(6, 1.5, late)),
        ("no complete pair", vec![unknown; 8]),
        ("no block", Vec::new()),
    ] {
        add(name, vec![judged("wait.p50", blocks)]);
    }
    add("999 samples a run", vec![judged("wait.p99", sampled(999))]);
    add("1,000 samples a run", vec![judged("wait.p99", sampled(1_000))]);
    type Spoil = fn(&mut [Answers]);
    let spoils: [(&str, Spoil); 4] = [
        ("A lost one", |blocks| blocks[2].a = spoiled()),
        ("both lost one", |blocks| (blocks[2].b, blocks[7].again) = (spoiled(), spoiled())),
        ("B lost one", |blocks| blocks[2].b = spoiled()),
        ("A lost three", |blocks| [1, 4, 9].into_iter().for_each(|at| blocks[at].a = spoiled())),
    ];
    for (name, spoil) in spoils {
        let found = judged_of("wait.p50", changed(26, 1.0, spoil), 24);
        add(&format!("{name} of 26 blocks, 24 planned"), vec![found]);
    }
    // Eight pairs are enough to decide six comparisons, but not seven.
    for count in [6, 7] {
        let each = drifting(1, 8, 0.01, 2.0).into_iter().map(|one| vec![one; count]);
        let blocks: Vec<_> = (1..).zip(each).collect();
        let found = compare(&vec![question("wait.p50"); count], &blocks, 8, &terms());
        add(&format!("{count} comparisons"), found);
    }
    for dropped in [0.0, 0.001, 0.2] {
        add(&format!("B drops {dropped} of all and serves the others sooner"), shedding(dropped));
    }
    insta::assert_snapshot!("verdicts", said);
}

/// Answers of a block in which B loses up to this share of arrivals.
fn losing(dropped: f64, block: u32) -> Answers {
    answers(0.0, dropped * (1.01 - f64::from(block) / 100.0), 0.0)
}

/// Eight blocks in which B drops up to this share of arrivals and serves the rest in half the time.
fn shedding(dropped: f64) -> Vec<Comparison> {
    let questions = [question("wait.p50"), FigureQuestion { only_if_lost: true, ..question("dropped") }];
    let of_block = |(number, waits): (u32, Answers)| (number, vec![waits, losing(dropped, number)]);
    let waits = blocks(|_| 50.0, |a| a);
    compare(&questions, &(1..).zip(waits).map(of_block).collect::<Vec<_>>(), 8, &terms())
}

#[test]
fn losses_that_no_run_has_count_in_the_family_of_losses() {
    let of = |dropped: [f64; 3]| {
        let questions = vec![FigureQuestion { only_if_lost: true, ..question("dropped") }; 3];
        let block = |number: u32| (number, dropped.map(|dropped| losing(dropped, number)).to_vec());
        compare(&questions, &(1..=8).map(block).collect::<Vec<_>>(), 8, &terms())
    };
    let (one, all) = (of([0.1, 0.0, 0.0]), of([0.1; 3]));
    assert_eq!((one.len(), all.len()), (1, 3));
    assert_eq!(one[0].in_family, all[0].in_family);
    assert_ne!(one[0].in_family, one[0].ratio);
}

#[test]
fn any_regression_decides_the_conclusion_and_unknown_metrics_prevent_a_pass() {
    let one = |(verdict, regression)| Comparison { verdict, regression, ..judged("wait.p50", Vec::new()) };
    let of =
        |each: &[(Found, Regression)]| Conclusion::of(&each.iter().copied().map(one).collect::<Vec<_>>());
    let same = (Found::Same, Regression::No);
    let improved = (Found::Improved, Regression::No);
    let open = (Found::Inconclusive, Regression::Unknown);
    assert_eq!(of(&[same, open, (Found::Regressed, Regression::Yes), improved]), Conclusion::Regressed);
    assert_eq!(of(&[same, open, improved]), Conclusion::Unknown);
    assert_eq!(of(&[same, (Found::NotMeasured, Regression::Unknown)]), Conclusion::Unknown);
    assert_eq!(of(&[same, improved]), Conclusion::Improved);
    assert_eq!(of(&[same, (Found::Inconclusive, Regression::No)]), Conclusion::NotWorse);
    assert_eq!(of(&[same, same]), Conclusion::Same);
    assert_eq!(of(&[]), Conclusion::Unknown);
}

#[test]
fn only_valid_trials_of_the_requested_cell_are_compared() {
    let trial = records::trial(0);
    let cell = CellKey::of(&trial.spec);
    let other = CellKey { contenders: 99, ..cell.clone() };
    let cells = CellPair { a: cell, b: other.clone() };
    let asked = |figure| FigureQuestion { cells: cells.clone(), ..question(figure) };
    let of = |trial: &Trial, turn| {
        asked("throughput").answer(turn, &records::stored(&records::run(1), std::slice::from_ref(trial)))
    };
    let expected = trial.reading(figures::THROUGHPUT.figure()).unwrap();
    assert_eq!(of(&trial, Turn::A), Ok(expected));
    assert_eq!(of(&trial, Turn::Again), Ok(expected));
    assert_eq!(of(&trial, Turn::B), Err(Silence::Unknown("its trial did not run".into())));
    let mut invalid = trial.clone();
    invalid.health.invalid = Some("late".into());
    assert_eq!(of(&invalid, Turn::A), spoiled());
    let partial = Trial { cut_short: records::interrupted(), ..trial.clone() };
    assert_eq!(of(&partial, Turn::A), Err(Silence::Spoiled("its trial is partial (interrupted)".into())));
    assert_eq!(asked("timed_out").cell(Turn::B), &other);
}

#[test]
fn losses_are_reported_as_a_share_of_all_requests() {
    let mut trial = records::trial(0);
    trial.measured.outcomes.add(Outcome::TimedOut, 2);
    let cell = CellKey::of(&trial.spec);
    let cells = CellPair { a: cell.clone(), b: cell };
    let asked = FigureQuestion { cells, only_if_lost: true, ..question("timed_out") };
    let lost = asked.answer(Turn::A, &records::stored(&records::run(1), std::slice::from_ref(&trial)));
    let lost = lost.unwrap().value;
    let all = (trial.measured.acquired() + trial.timed_out() + trial.unserved()) as f64;
    assert!((lost - trial.timed_out() as f64 / all).abs() < 1e-12, "{lost} of {all}");
}

/// A stored comparison of eight blocks in which B holds the lock 20 % longer.
pub fn file() -> AbFile {
    let questions = ["throughput", "wait.p50", "wait.p99"].map(question);
    let answers = drifting(3, 8, 0.02, 1.2);
    let per_s = |answers: &Answers| {
        let rate = |of: &Answer| known(1e6 / of.as_ref().unwrap().value);
        Answers { a: rate(&answers.a), b: rate(&answers.b), again: rate(&answers.again) }
    };
    let same = drifting(4, 24, 0.01, 1.0);
    let blocks: Vec<_> = (1..)
        .zip(answers.iter().zip(&same).map(|(slow, same)| vec![per_s(slow), slow.clone(), same.clone()]))
        .collect();
    let comparisons = compare(&questions, &blocks, 8, &terms());
    let record = |number: u32| {
        let block = Block::of(1, number);
        let run = |turn: Turn| RunRecord {
            turn,
            directory: format!("runs/ab-1-{number:03}-{}", turn.name()),
            exit_code: Some(0),
            took_us: 2_500_000,
            verdict: Verdict::Held,
        };
        BlockRecord { number, seed: block.seed, runs: block.order.map(run).to_vec() }
    };
    let side = |differs: &str| SideRecord {
        opened_anew: false,
        differs: vec![differs.into()],
        program: "/usr/bin/zklockbench".into(),
        program_version: "zklockbench 0.1.0".into(),
        drivers: Vec::new(),
        scenario_text: "name = \"quick\"\n".into(),
        ensemble: records::run(1).ensemble,
        floor: Floor::default(),
        judged: Verdict::Held,
    };
    AbFile {
        resumed_after: Vec::new(),
        schema_version: FILE.version,
        tool_version: "0.1.0".into(),
        tool_commit: None,
        scenario: "quick".into(),
        seed: 1,
        host: records::run(1).host,
        started_at: records::began(),
        written_at: records::began(),
        ending: Ending::Complete,
        why: None,
        asked: Asked { blocks: 8, until: None, blocks_at_most: 8, made_up_at_most: 4, reached: None },
        terms: terms(),
        sides: Sides { a: side("hold=5ms"), b: side("hold=6ms") },
        conclusion: Conclusion::of(&comparisons),
        comparisons,
        counted: Vec::new(),
        blocks: (1..=8).map(record).collect(),
    }
}

#[test]
fn ab_output_starts_with_the_conclusion_and_names_both_sides() {
    insta::assert_snapshot!("ab_regressed", zklockbench_report::ab(&file(), Style::EVERYTHING));
    insta::assert_snapshot!("ab_regressed_markdown", zklockbench_report::ab_markdown(&file()));
    let mut shed = AbFile { comparisons: shedding(0.1), ..file() };
    shed.conclusion = Conclusion::of(&shed.comparisons);
    // An interrupted comparison with a violated lock and one reason for every inconclusive metric
    let mut partial = file();
    partial.ending = Ending::Interrupted;
    (partial.asked.until, partial.asked.reached) = (Some(0.03), Some(false));
    partial.sides.b.judged = Verdict::Violated(vec!["runs/ab-1-002-b: two contenders were inside".into()]);
    for one in &mut partial.comparisons {
        (one.why, one.verdict) = (Some("noise".into()), Found::Inconclusive);
    }
    let shown = [&shed, &partial].map(|file| zklockbench_report::ab(file, Style::EVERYTHING));
    insta::assert_snapshot!("ab_shed_and_partial", shown.join("\n===\n"));
    partial.sides.b.differs = vec!["hold=\"<b>|`\"".into()];
    partial.blocks.clear();
    let markdown = zklockbench_report::ab_markdown(&partial);
    for text in [&markdown, &zklockbench_report::ab(&partial, Style::EVERYTHING)] {
        assert!(text.contains("No block finished"), "{text}");
    }
    assert!(markdown.contains("- B: hold=\"&lt;b>\\|\\`\""), "{markdown}");
}

#[test]
fn ab_charts_show_every_ratio_and_every_block() {
    let dir = tempfile::tempdir().unwrap();
    let drawn = zklockbench_report::chart::draw_ab(&file(), dir.path()).unwrap();
    let names: Vec<_> = drawn.files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["ratios.svg", "ratios.png", "blocks.svg", "blocks.png"]);
    let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    for told in ["Regressed: B is worse than A", "baton, 5: throughput", "regressed", "B: hold=6ms"] {
        assert!(text("ratios.svg").contains(told), "{told}");
    }
    for told in ["A again / A", "baton, 5: wait.p50: regressed", "block"] {
        assert!(text("blocks.svg").contains(told), "{told}");
    }
    let mut none = file();
    none.blocks.clear();
    none.comparisons.iter_mut().for_each(|one| (one.ratio, one.values) = (None, Vec::new()));
    let drawn = zklockbench_report::chart::draw_ab(&none, &dir.path().join("none")).unwrap();
    assert_eq!((drawn.files.len(), drawn.left_out.len()), (0, 2));
}

#[test]
fn the_ab_page_shows_the_ratios_and_the_differences() {
    let page = html::page(&[page::of_ab(&file())], None);
    assert_eq!(page.matches("role=\"img\"").count(), 2);
    for told in ["✗ regressed", "Regressed: B is worse than A", "B: hold=6ms", "B / A, metric by metric"] {
        assert!(page.contains(told), "{told}");
    }
    assert!(!page.contains("NaN"));
}

#[test]
fn the_ab_file_matches_its_schema_and_is_replaced_atomically() {
    let directory = tempfile::tempdir().unwrap();
    let file = file();
    let going_on = AbFile { ending: Ending::GoingOn, ..file.clone() };
    going_on.write(directory.path()).unwrap();
    file.write(directory.path()).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["ab.json"]);
    let text = std::fs::read_to_string(directory.path().join("ab.json")).unwrap();
    assert_eq!(serde_json::from_str::<AbFile>(&text).unwrap(), file);
    let validator = Schema::new(schemars::schema_for!(AbFile).as_value());
    let value = serde_json::from_str(&text).unwrap();
    let errors: Vec<String> = validator.complaints(&value);
    assert_eq!(errors, Vec::<String>::new());
}
