//! The document of a plan.

use super::facts::{fact, place, program};
use super::{filled, noted, section};
use crate::document::{
    Axis, Block, Chart, ChartKind, Curve, Document, Ends, Finding, Guide, GuideCourse, Lines, Link, Mark,
    Tone, Value, Weight,
};
use crate::table::plan::{
    by_servers, checked, checked_failures, ensemble, failures, fits, fresh, headline, left_out,
    map as plan_map, missing, sensitivities, unverified, verified, waits, word,
};
use zklockbench_analysis::plan::{Answer, CurvePoint, FailureCost, PlanFile, wait_of};
use zklockbench_core::units::{as_a_word, capitalised, number};
use zklockbench_core::verdict::Verdict;

const CURVE: Link = Link { section: "curve", text: "waits by rate" };
const FIGURES: Link = Link { section: "figures", text: "figures" };
const VERIFICATION: Link = Link { section: "verification", text: "verification" };

pub fn of_plan(plan: &PlanFile) -> Document {
    let figures = [waits(plan), by_servers(plan), ensemble(plan), fresh(plan), failures(plan)]
        .into_iter()
        .flatten()
        .map(Block::from);
    let verification = plan.verifications.iter().flat_map(|one| {
        let failures = checked_failures(one).map(Block::from);
        let all = [Block::Text(verified(one)), checked(one).into()].into_iter().chain(failures);
        all.chain(noted(one.notes.clone()))
    });
    let lacks = missing(plan).into_iter().chain(left_out(plan)).map(|note| capitalised(&note));
    let basis = fits(plan).map(Block::from).into_iter().chain(noted(sensitivities(plan)));
    let sections = [
        section(CURVE.section, "Waits by rate", [curve(plan)]),
        section(FIGURES.section, "Figures", figures),
        section("map", "At other rates", plan_map(plan).map(Block::from)),
        section(VERIFICATION.section, "Verification", verification),
        section("missing", "What is missing", noted(lacks.collect())),
        section("load", "The load", load(plan)),
        section("basis", "Model inputs", basis),
        section("environment", "Where it was measured", environment(plan)),
        section("reproduce", "How to reproduce this", reproduce(plan)),
    ];
    let verdict = word(&plan.verdict());
    let topic = if plan.recommendation.is_some() { "Recommended" } else { "No recommendation" };
    Document {
        title: match plan.question.think {
            Some(_) => format!("Will it carry {} clients?", plan.question.clients),
            None => format!("Will it carry {} requests a second?", number(plan.question.rate)),
        },
        about: capitalised(&plan.question.describe()),
        headline: Finding::new(topic, verdict.tone(), headline(plan), Some(CURVE)),
        verdict,
        comes_to: "Answer",
        findings: findings(plan),
        strategies: plan.answers.iter().map(|answer| answer.strategy.clone()).collect(),
        sections: filled(sections),
    }
}

/// Description of the question's scenario, which may list learned and assumed facts.
fn load(plan: &PlanFile) -> Option<Block> {
    let scenario: toml::Table = plan.question.scenario.as_ref()?.parse().ok()?;
    Some(Block::Text(scenario.get("description")?.as_str().filter(|text| !text.is_empty())?.to_owned()))
}

fn findings(plan: &PlanFile) -> Vec<Finding> {
    let tone = |verdict: &Verdict| word(verdict).tone();
    let tried = plan
        .verifications
        .iter()
        .map(|one| Finding::new("Verified", tone(&one.verdict()), verified(one), Some(VERIFICATION)));
    let answers = plan.answers.iter().map(|answer| {
        let sentences = std::iter::once(answer.sentence(&plan.question.objective))
            .chain(answer.failures.iter().filter_map(FailureCost::sentence))
            .map(|sentence| format!("{}.", capitalised(&sentence)))
            .collect::<Vec<_>>();
        Finding::new(answer.strategy.as_str(), tone(&answer.verdict), sentences.join(" "), Some(FIGURES))
    });
    let not_tried = unverified(plan)
        .into_iter()
        .map(|sentence| Finding::new("Not verified", Tone::Doubtful, format!("{sentence}."), None));
    tried.chain(not_tried).chain(answers).collect()
}

fn curve(plan: &PlanFile) -> Block {
    let question = &plan.question;
    let figure = wait_of(&question.objective);
    let title = format!("Predicted {figure} by rate");
    let series: Vec<Curve> =
        plan.answers.iter().zip(0..).filter_map(|(one, at)| line(plan, one, at)).collect();
    if series.is_empty() {
        let is_predicted = plan.answers.iter().any(|answer| answer.prediction.is_some());
        let why = match is_predicted {
            true if question.think.is_some() => "clients that come back have no fixed rate",
            true => "the version that made this plan kept no predictions for other rates",
            false => "nothing could be predicted",
        };
        return Block::NoChart { title, why: why.to_owned() };
    }
    let rates = || series.iter().flat_map(|one| &one.line).map(|point| point.0);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let objective = format!("Objective: {}.", question.objective.text);
    let said = plan.answers.iter().filter_map(|answer| said(plan, answer));
    let said: Vec<String> = std::iter::once(objective).chain(said).collect();
    let is_measured = series.iter().any(|one| !one.measured.is_empty());
    let rings =
        if is_measured { " Rings: measured by the verification, at the same rate per lock." } else { "" };
    let caption = format!(
        "Lines: predicted; shaded: the 90 % interval; markers: the rate asked about.{rings} A line ends \
         about where the objective is missed, or at the end of the measured range."
    );
    let limit = Some(question.objective.limit).filter(|_| figure == question.objective.figure);
    let y = Axis::durations(&figure.to_string(), series.iter().flat_map(Curve::heights).chain(limit));
    let x = match most >= 10.0 * least {
        true => Axis::logarithmic("lock requests a second", [least, most]),
        false => Axis::from_zero("lock requests a second", most),
    };
    let limit =
        limit.map(|at| Guide::new(GuideCourse::Level(at), question.objective.text.as_str(), Weight::Limit));
    let rate = format!("your rate: {}/s", number(question.rate));
    let guides =
        limit.into_iter().chain([Guide::new(GuideCourse::Upright(question.rate), rate, Weight::Strong)]);
    Block::from(Chart {
        id: "waits-over-rate".to_owned(),
        title,
        said: said.join(" "),
        caption: vec![caption],
        kind: ChartKind::Lines(Lines { guides: guides.collect(), ..Lines::either_way(x, y, series) }),
    })
}

fn asked(plan: &PlanFile, answer: &Answer) -> Option<CurvePoint> {
    let far = |point: &CurvePoint| (point.rate - plan.question.rate).abs();
    answer.curve.iter().copied().min_by(|one, other| far(one).total_cmp(&far(other)))
}

/// Measurements of a strategy's verifications at the question's rate per lock.
fn measured(plan: &PlanFile, answer: &Answer) -> Vec<(f64, f64)> {
    let figure = wait_of(&plan.question.objective).to_string();
    let own = plan.verifications.iter().filter(|one| one.strategy == answer.strategy);
    own.filter_map(|one| {
        let checked = one.figures.iter().find(|checked| checked.figure == figure)?;
        // With more locks than in the question, a verification has a proportionally higher total rate.
        Some((one.rate * plan.question.locks as f64 / one.locks as f64, checked.measured))
    })
    .collect()
}

fn line(plan: &PlanFile, answer: &Answer, strategy: usize) -> Option<Curve> {
    let asked = asked(plan, answer)?;
    let ends = |point: &CurvePoint| Ends {
        at: point.rate,
        low: point.wait.low,
        middle: point.wait.middle,
        high: point.wait.high,
    };
    Some(Curve {
        line: answer.curve.iter().map(|point| (point.rate, point.wait.middle)).collect(),
        shaded: answer.curve.iter().map(ends).collect(),
        markers: vec![((asked.rate, asked.wait.middle), Mark::default())],
        measured: measured(plan, answer),
        ..Curve::new(strategy, answer.strategy.as_str())
    })
}

fn said(plan: &PlanFile, answer: &Answer) -> Option<String> {
    let (asked, first, last) = (asked(plan, answer)?, answer.curve.first()?, answer.curve.last()?);
    let wait = |us: f64| Value::Duration(us).shown();
    let at = |point: &CurvePoint| format!("{} at {}/s", wait(point.wait.middle), number(point.rate));
    let measured: Vec<String> =
        measured(plan, answer).iter().map(|(_, us)| format!(", {} measured", wait(*us))).collect();
    Some(format!(
        "{}: from {} to {}; at {}/s, the rate asked about, {} (90 %: {} to {}){}.",
        answer.strategy,
        at(first),
        at(last),
        number(asked.rate),
        wait(asked.wait.middle),
        wait(asked.wait.low),
        wait(asked.wait.high),
        measured.concat()
    ))
}

fn environment(plan: &PlanFile) -> Vec<Block> {
    let place = plan.ensemble.as_ref().zip(plan.host.as_ref()).map(|(ensemble, host)| place(ensemble, host));
    let facts = place.map(Block::Facts);
    facts.into_iter().chain(noted(plan.caveats())).collect()
}

/// Words of a command without the directory of a resumed run.
fn asks_anew(command: &[String]) -> impl Iterator<Item = &str> {
    let mut names_directory = false;
    command.iter().map(String::as_str).filter(move |word| {
        let is_directory = std::mem::replace(&mut names_directory, *word == "--resume");
        !is_directory && !names_directory && !word.starts_with("--resume=")
    })
}

fn reproduce(plan: &PlanFile) -> Vec<Block> {
    let words = asks_anew(&plan.command).skip(1).map(as_a_word);
    let command: Vec<String> = std::iter::once("zklockbench".to_owned()).chain(words).collect();
    let sources: Vec<String> = plan.sources.iter().map(|source| source.display().to_string()).collect();
    vec![
        Block::Code { caption: "Ask again:".to_owned(), text: command.join(" ") },
        Block::Facts(vec![
            fact("Asked", humantime::format_rfc3339_seconds(plan.asked_at).to_string()),
            fact("Answered from", sources.join(", ")),
            program(&plan.tool_version, plan.tool_commit.as_deref()),
        ]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repeat_command_of_a_resumed_plan_omits_its_directory() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let anew = |line: &str| asks_anew(&words(line)).collect::<Vec<_>>().join(" ");
        assert_eq!(anew("plan --rate 5/s --resume dir --verify"), "plan --rate 5/s --verify");
        assert_eq!(anew("plan --resume=dir --rate 5/s"), "plan --rate 5/s");
    }
}
