//! A/B: what may be concluded from blocks, and how it is told.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::json_schema::Schema;
use crate::support::records;
use zklockbench_analysis::ab::{
    AbFile, Answer, Answers, Asked, Block, BlockRecord, CellPair, Comparison, Conclusion, Ending, FILE,
    FigureQuestion, Length, Next, Progress, RunRecord, SideRecord, Sides, Silence, Turn, compare,
};
use zklockbench_analysis::compare::{ComparisonVerdict as Found, Regression, Terms};
use zklockbench_core::measure::Outcome;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures;
use zklockbench_record::{Cause, CellKey, CutShort, Figure, Floor, Reading};
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

/// Judges one figure by the answers of each block.
fn judged(figure: &str, blocks: Vec<Answers>) -> Comparison {
    let asked = u32::try_from(blocks.len()).unwrap();
    judged_of(figure, blocks, asked)
}

/// The same where so many blocks were to be run in any case.
fn judged_of(figure: &str, blocks: Vec<Answers>, asked: u32) -> Comparison {
    let blocks: Vec<_> = (1..).zip(blocks.into_iter().map(|one| vec![one])).collect();
    compare(&[question(figure)], &blocks, asked, &terms()).remove(0)
}

fn spoiled() -> Answer {
    Err(Silence::Spoiled("its trial is invalid (late)".into()))
}

/// Blocks on a machine that becomes twice as slow meanwhile, with so much noise in each run; B takes so many times as long.
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
fn a_wait_20_percent_longer_is_found_even_if_the_host_slows_down_by_half() {
    for seed in 0..200 {
        let found = judged("wait.p50", drifting(seed, 8, 0.03, 1.2));
        assert_eq!(found.verdict, Found::Regressed, "{seed}: {found:?}");
        let ratio = found.ratio.unwrap();
        assert!(ratio.low > 1.1 && ratio.high < 1.3, "{ratio:?}");
    }
}

#[test]
fn noise_and_drift_alone_never_show_a_difference() {
    let alarms = (0..1_000).filter(|seed| {
        let found = judged("wait.p50", drifting(*seed, 8, 0.15, 1.0));
        !matches!(found.verdict, Found::Same | Found::Inconclusive)
    });
    let alarms = alarms.count();
    assert!(alarms <= 50, "{alarms} of 1,000");
    // And with less noise it is found to be the same
    assert_eq!(judged("wait.p50", drifting(1, 24, 0.01, 1.0)).verdict, Found::Same);
}

#[test]
fn intervals_miss_the_truth_in_one_of_twenty_comparisons_that_stop_once_they_are_narrow() {
    let length = Length { blocks: 8, until: Some(0.03), at_most: 20, outside: 0.05 };
    let stopped = |seed: u64| {
        // Given noise of which the intervals get narrow enough sooner or later
        let blocks: Vec<_> =
            (1..).zip(drifting(seed, 20, 0.04, 1.1).into_iter().map(|one| vec![one])).collect();
        for done in 8_usize.. {
            let terms = Terms { alpha: length.share(done as u32, 0), ..terms() };
            let found = compare(&[question("wait.p50")], &blocks[..done], 8, &terms).remove(0).ratio.unwrap();
            let half_widths = [found.half_width()];
            let so_far = Progress { done: done as u32, spoiled: 0, half_widths: &half_widths };
            match length.after(so_far) {
                Next::Another => {}
                end => return (end == Next::Enough && done < 20, found.contains(1.1)),
            }
        }
        unreachable!()
    };
    let all: Vec<(bool, bool)> = (0..300).map(stopped).collect();
    let count = |is_it: fn(&(bool, bool)) -> bool| all.iter().filter(|one| is_it(one)).count();
    let (early, missed) = (count(|(early, _)| *early), count(|(_, contains)| !contains));
    println!("{early} stopped early, {missed} missed of {}", all.len());
    assert!(early >= 100, "{early}");
    // Two standard errors of 5 % of 300 are 8.
    assert!(missed <= 15 + 8, "{missed}");
}

#[test]
fn the_metric_decides_which_direction_is_better() {
    let blocks = |ratio: f64| {
        (1..=8_u32).map(move |at| {
            let a = 100.0 + f64::from(at);
            answers(a, a * ratio + f64::from(at) / 1e3, a + f64::from(at) / 1e3)
        })
    };
    let found = |figure, ratio| judged(figure, blocks(ratio).collect()).verdict;
    assert_eq!((found("throughput", 0.8), found("throughput", 1.3)), (Found::Regressed, Found::Improved));
    assert_eq!((found("wait.p99", 0.8), found("wait.p99", 1.3)), (Found::Improved, Found::Regressed));
    assert_eq!((found("hold.p50", 0.8), found("hold.p50", 1.0)), (Found::Differs, Found::Same));
}

#[test]
fn a_difference_within_the_margin_is_no_regression_and_one_near_it_is_inconclusive() {
    let blocks = |ratio: f64| {
        (1..=8_u32).map(move |at| {
            let a = 100.0 + f64::from(at);
            answers(a, a * (ratio + f64::from(at) / 1e4), a + f64::from(at) / 1e3)
        })
    };
    let found = |ratio| judged("wait.p50", blocks(ratio).collect());
    assert_eq!(found(1.03).verdict, Found::Same);
    let about = found(1.0497);
    assert_eq!(about.verdict, Found::Inconclusive);
    assert_eq!(about.regression, Regression::Unknown);
    assert!(about.why.unwrap().starts_with("the interval over 8 pairs reaches across the margin of 5 %"));
    assert_eq!(found(1.06).verdict, Found::Regressed);
}

#[test]
fn too_few_pairs_report_how_many_are_needed() {
    let few = judged("wait.p50", drifting(1, 3, 0.01, 2.0));
    assert_eq!(few.verdict, Found::Inconclusive);
    let why = few.why.unwrap();
    assert!(why.starts_with("3 pairs can't decide 1 comparison; needs about 6 pairs"), "{why}");
    // Given eight pairs, which can decide six comparisons, and seven of those
    let questions = vec![question("wait.p50"); 7];
    let blocks: Vec<_> = (1..).zip(drifting(1, 8, 0.01, 2.0).into_iter().map(|one| vec![one; 7])).collect();
    let all = compare(&questions, &blocks, 8, &terms());
    assert!(all.iter().all(|one| one.verdict == Found::Inconclusive), "{all:?}");
    assert_eq!((all[0].pairs_needed, all[0].regression), (Some(9), Regression::Unknown));
    assert!(compare(&questions[..6], &blocks, 8, &terms()).iter().all(|one| one.verdict == Found::Regressed));
}

#[test]
fn a_run_without_results_is_never_green_and_a_regression_stays_one() {
    let lacking = |slower: f64| {
        let mut blocks = drifting(1, 24, 0.01, slower);
        blocks[2].b = spoiled();
        judged("wait.p50", blocks)
    };
    for slower in [1.0, 0.5] {
        let found = lacking(slower);
        assert_eq!((found.verdict, found.pairs), (Found::Inconclusive, 23), "{found:?}");
        assert_eq!(
            found.why.as_deref(),
            Some("1 of 24 pairs are missing: in block 3 B gave none: its trial is invalid (late)")
        );
    }
    assert_eq!(lacking(1.5).verdict, Found::Regressed);
    // And where the others are too few, both is said
    let mut few = drifting(1, 6, 0.01, 1.5);
    few[0].a = Err(Silence::Spoiled("late".into()));
    let why = judged("wait.p50", few).why.unwrap();
    let expected =
        "1 of 6 pairs are missing: in block 1 A gave none: late; as for the rest, 5 pairs can't decide";
    assert!(why.starts_with(expected), "{why}");
    // And when no block has a pair, that is what is said
    let none = Answers { b: Err(Silence::Unknown("not measured".into())), ..answers(1.0, 1.0, 1.0) };
    let found = judged("wait.p50", vec![none; 8]);
    assert_eq!((found.verdict, found.ratio), (Found::NotMeasured, None));
    assert!(found.why.unwrap().ends_with("in block 1 B gave none: not measured"));
    assert_eq!(judged("wait.p50", Vec::new()).verdict, Found::NotMeasured);
}

#[test]
fn replaced_invalid_pairs_matter_only_if_b_was_invalid_more_often_than_a() {
    // 24 blocks were asked for, and 26 ran.
    let spoiling = |spoil: fn(&mut [Answers])| {
        let mut blocks = drifting(1, 26, 0.01, 1.0);
        spoil(&mut blocks);
        judged_of("wait.p50", blocks, 24)
    };
    let of_a = spoiling(|blocks| blocks[2].a = spoiled());
    assert_eq!((of_a.verdict, of_a.pairs), (Found::Same, 25), "{of_a:?}");
    assert!(of_a.why.unwrap().starts_with("1 of 26 pairs are missing: in block 3 A gave none"));
    let of_both = spoiling(|blocks| (blocks[2].b, blocks[7].again) = (spoiled(), spoiled()));
    assert_eq!(of_both.verdict, Found::Same, "{of_both:?}");
    let of_b = spoiling(|blocks| blocks[2].b = spoiled());
    assert_eq!((of_b.verdict, of_b.regression), (Found::Inconclusive, Regression::Unknown), "{of_b:?}");
    // And where too many were spoiled to make up for all of them
    let too_many =
        spoiling(|blocks| (blocks[1].a, blocks[4].a, blocks[9].a) = (spoiled(), spoiled(), spoiled()));
    assert_eq!((too_many.verdict, too_many.pairs), (Found::Inconclusive, 23), "{too_many:?}");
}

#[test]
fn a_side_that_differs_from_itself_shows_no_difference_from_the_other() {
    let blocks = (1..=8_u32).map(|at| {
        let a = 100.0 + f64::from(at);
        answers(a, 1.5 * a + f64::from(at) / 1e3, 1.4 * a + f64::from(at) / 1e3)
    });
    let found = judged("wait.p50", blocks.collect());
    assert_eq!(found.verdict, Found::Inconclusive);
    assert!(found.why.unwrap().starts_with("A differs from itself as clearly"));
}

#[test]
fn the_overall_outcome_is_the_worst_known_and_never_green_when_something_is_unknown() {
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
fn only_a_valid_trial_of_the_same_combination_counts() {
    let trial = {
        let mut trial = records::trial(0);
        trial.cut_short = None;
        trial
    };
    let cell = CellKey::of(&trial.spec);
    let other = CellKey { contenders: 99, ..cell.clone() };
    let asked = |figure: Figure| FigureQuestion {
        cells: CellPair { a: cell.clone(), b: other.clone() },
        figure,
        only_if_lost: false,
    };
    let of = |trial: &zklockbench_record::Trial, turn| {
        asked(figures::THROUGHPUT.figure())
            .answer(turn, &records::stored(&records::run(1), std::slice::from_ref(trial)))
    };
    let expected = trial.reading(figures::THROUGHPUT.figure()).unwrap();
    assert_eq!(of(&trial, Turn::A), Ok(expected));
    assert_eq!(of(&trial, Turn::Again), Ok(expected));
    assert_eq!(of(&trial, Turn::B), Err(Silence::Unknown("its trial did not run".into())));
    let mut invalid = trial.clone();
    invalid.health.invalid = Some("late".into());
    assert_eq!(of(&invalid, Turn::A), spoiled());
    let mut partial = trial.clone();
    partial.cut_short = Some(CutShort { cause: Cause::Interrupted, why: "interrupted".into() });
    assert_eq!(of(&partial, Turn::A), Err(Silence::Spoiled("its trial is partial (interrupted)".into())));
    assert_eq!(asked(figures::named("timed_out").unwrap()).cell(Turn::B), &other);
}

#[test]
fn a_side_that_sheds_arrivals_has_regressed_even_if_served_waits_are_shorter() {
    // Given eight blocks in which B drops up to a tenth of all arrivals, and those that it serves wait half as long
    let waits: Vec<Answers> =
        (1..=8).map(|at| answers(100.0 + f64::from(at), 50.0, 100.0 + f64::from(at))).collect();
    let questions = [question("wait.p50"), FigureQuestion { only_if_lost: true, ..question("dropped") }];
    let judged = |dropped: f64| {
        let of_block = |at: usize| {
            let lost = dropped * (1.0 - at as f64 / 100.0);
            (at as u32 + 1, vec![waits[at].clone(), answers(0.0, lost, 0.0)])
        };
        compare(&questions, &(0..8).map(of_block).collect::<Vec<_>>(), 8, &terms())
    };
    // Then it has regressed, and by how much is said as a share of all
    let lost = judged(0.1).remove(1);
    assert_eq!((lost.verdict, lost.better.as_str()), (Found::Regressed, "lower"), "{lost:?}");
    assert!((lost.ratio.unwrap().value - 1.097).abs() < 0.002, "{lost:?}");
    let mut file = file();
    file.comparisons = judged(0.1);
    file.conclusion = Conclusion::of(&file.comparisons);
    let said = zklockbench_report::ab(&file, Style::EVERYTHING);
    assert!(said.starts_with("Regressed: B is worse than A: dropped of baton, 5 contenders 9.6"), "{said}");
    // Few that are lost are no regression, and where none is, nothing is compared
    let few = judged(0.001);
    assert_eq!((few.len(), Conclusion::of(&few)), (2, Conclusion::Improved));
    assert_eq!(judged(0.0).len(), 1);
}

#[test]
fn losses_are_reported_as_a_share_of_the_requested_trials() {
    let mut trial = records::trial(0);
    trial.measured.outcomes.add(Outcome::TimedOut, 2);
    let cell = CellKey::of(&trial.spec);
    let asked = FigureQuestion {
        cells: CellPair { a: cell.clone(), b: cell },
        figure: figures::named("timed_out").unwrap(),
        only_if_lost: true,
    };
    let lost = asked.answer(Turn::A, &records::stored(&records::run(1), std::slice::from_ref(&trial)));
    let lost = lost.unwrap().value;
    let all = (trial.measured.acquired() + trial.timed_out() + trial.unserved()) as f64;
    assert!((lost - trial.timed_out() as f64 / all).abs() < 1e-12, "{lost} of {all}");
}

#[test]
fn a_percentile_of_too_few_samples_is_not_measured_and_never_green() {
    let of = |samples: u64| {
        let answer = |value: f64| Ok(Reading { value, at_least: false, samples: Some(samples) });
        let block = |at: u32| {
            let value = 100.0 + f64::from(at) / 100.0;
            Answers { a: answer(value), b: answer(value), again: answer(value) }
        };
        judged("wait.p99", (0..8).map(block).collect())
    };
    assert_eq!(of(1_000).verdict, Found::Same);
    let few = of(999);
    assert_eq!((few.verdict, few.regression), (Found::NotMeasured, Regression::Unknown));
    assert!(few.why.unwrap().starts_with("wait.p99 takes 1000 samples in each run"));
}

/// A comparison as it is left, of eight blocks in which a hold is a fifth longer.
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
fn the_table_starts_with_the_conclusion_and_shows_noise_next_to_each_ratio() {
    insta::assert_snapshot!("ab_regressed", zklockbench_report::ab(&file(), Style::EVERYTHING));
}

#[test]
fn the_markdown_has_the_conclusion_each_comparison_and_the_sides() {
    insta::assert_snapshot!("ab_regressed_markdown", zklockbench_report::ab_markdown(&file()));
    let mut file = file();
    file.sides.b.differs = vec!["hold=\"<b>|`\"".into()];
    assert!(zklockbench_report::ab_markdown(&file).contains("- B: hold=\"&lt;b>\\|\\`\""));
    file.blocks.clear();
    assert!(zklockbench_report::ab_markdown(&file).contains("No block ran to its end"));
}

#[test]
fn the_charts_show_every_ratio_and_every_block_that_exists() {
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
fn a_comparison_has_a_page_with_its_ratios_and_what_differs() {
    let page = html::page(&[page::of_ab(&file())], None);
    assert_eq!(page.matches("role=\"img\"").count(), 2);
    for told in ["✗ regressed", "Regressed: B is worse than A", "B: hold=6ms", "B / A, figure by figure"] {
        assert!(page.contains(told), "{told}");
    }
    assert!(!page.contains("NaN"));
}

#[test]
fn partial_and_violated_runs_are_named_in_the_first_line_and_below_the_table() {
    let mut file = file();
    file.ending = Ending::Interrupted;
    file.asked.until = Some(0.03);
    file.asked.reached = Some(false);
    file.sides.b.judged = Verdict::Violated(vec!["runs/ab-1-002-b: two inside".into()]);
    let text = zklockbench_report::ab(&file, Style::EVERYTHING);
    assert!(text.starts_with("VIOLATED: a lock broke a promise (3 comparisons: "), "{text}");
    for note in [
        "! interrupted after 8 blocks: judged by what was measured until then",
        "! violated: B: runs/ab-1-002-b: two inside",
        "! ± 3 % was asked for but not reached",
    ] {
        assert!(text.contains(note), "{note} is missing in:\n{text}");
    }
    // And what several share is said once
    for one in &mut file.comparisons {
        one.why = Some("noise".into());
        one.verdict = Found::Inconclusive;
    }
    let text = zklockbench_report::ab(&file, Style::EVERYTHING);
    let once = "! 3 comparisons (such as throughput of baton, 5 contenders): inconclusive: noise";
    assert!(text.contains(once) && text.matches("noise\n").count() == 1, "{text}");
    file.blocks.clear();
    assert!(zklockbench_report::ab(&file, Style::EVERYTHING).contains("No block ran to its end"));
}

#[test]
fn the_file_matches_its_schema_and_is_replaced_atomically() {
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
