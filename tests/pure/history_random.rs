//! Random histories. A correct lock is never reported as violated, a single overlap is found, and no text makes the
//! checker panic.

use std::fmt::Write as _;

use proptest::prelude::*;
use zklockbench_judge::history::{Breach, Judgement};

use crate::support::story::{check_text, judged, lines};

const CONTENDERS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Outside,
    Asking,
    Inside,
    Suspended,
    /// The release was requested, but the node still exists.
    Leaving,
    /// The node is deleted, but the reply has not arrived.
    Left,
}

/// A random simulation of a correct lock.
struct Simulation {
    kind: Kind,
    at: [At; CONTENDERS],
    tokens: [i64; CONTENDERS],
    reads: [bool; CONTENDERS],
    deleted: [i64; CONTENDERS],
    fair: bool,
    zxid: i64,
    t_us: u64,
    story: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mutex,
    Semaphore,
    ReadWrite,
}

impl Simulation {
    fn new(kind: Kind, fair: bool) -> Self {
        let story = match kind {
            Kind::Mutex => "mutex",
            Kind::Semaphore => "semaphore 2",
            Kind::ReadWrite => "read-write",
        };
        Self {
            kind,
            at: [At::Outside; CONTENDERS],
            tokens: [0; CONTENDERS],
            reads: [false; CONTENDERS],
            deleted: [0; CONTENDERS],
            fair,
            zxid: 0,
            t_us: 0,
            story: format!("{story}\n"),
        }
    }

    fn says(&mut self, who: usize, what: &str) {
        self.t_us += 1;
        writeln!(self.story, "{} a/{who} {what}", self.t_us / 2).unwrap();
    }

    fn next_zxid(&mut self) -> i64 {
        self.zxid += 1;
        self.zxid
    }

    /// Returns whether a contender may enter.
    fn may_enter(&self, who: usize) -> bool {
        let at = |wanted: &[At]| {
            (0..CONTENDERS).filter(|other| wanted.contains(&self.at[*other])).collect::<Vec<_>>()
        };
        let inside = at(&[At::Inside, At::Suspended, At::Leaving]);
        let asked_before = at(&[At::Asking]).iter().any(|other| self.tokens[*other] < self.tokens[who]);
        let room = match self.kind {
            Kind::Mutex => inside.is_empty(),
            Kind::Semaphore => inside.len() < 2,
            Kind::ReadWrite => inside.iter().all(|other| self.reads[*other] && self.reads[who]),
        };
        room && !(self.fair && asked_before)
    }

    /// Lets one contender take its next step. With `faults`, sessions may break.
    fn step(&mut self, choice: u16, faults: bool) {
        let who = usize::from(choice) % CONTENDERS;
        let chance = choice / 8 % 16;
        let mode = |reads| if reads { "read" } else { "write" };
        match self.at[who] {
            At::Outside => {
                self.reads[who] = chance.is_multiple_of(2);
                self.tokens[who] = self.next_zxid();
                self.says(who, &format!("acquire invoke mode={}", mode(self.reads[who])));
                self.at[who] = At::Asking;
            }
            At::Asking if self.may_enter(who) => {
                let found = format!("token={} zxid={}", self.tokens[who], self.zxid);
                self.says(who, &format!("acquire ok mode={} {found}", mode(self.reads[who])));
                self.at[who] = At::Inside;
            }
            At::Asking if chance == 0 => {
                self.says(who, "acquire fail");
                self.at[who] = At::Outside;
            }
            At::Asking => {}
            At::Inside if faults && chance == 1 => {
                self.says(who, "session suspended");
                self.at[who] = At::Suspended;
            }
            At::Suspended if chance.is_multiple_of(2) => {
                self.says(who, "session expired");
                self.next_zxid();
                self.at[who] = At::Outside;
            }
            At::Suspended => {
                self.says(who, "session connected");
                self.at[who] = At::Inside;
            }
            At::Inside => {
                self.says(who, "release invoke");
                self.at[who] = At::Leaving;
            }
            At::Leaving => {
                self.deleted[who] = self.next_zxid();
                self.at[who] = At::Left;
            }
            At::Left => {
                self.says(who, &format!("release ok deleted_zxid={}", self.deleted[who]));
                self.at[who] = At::Outside;
            }
        }
    }
}

fn simulated(kind: Kind, fair: bool, faults: bool, choices: &[u16]) -> String {
    let mut simulation = Simulation::new(kind, fair);
    choices.iter().for_each(|choice| simulation.step(*choice, faults));
    simulation.story
}

fn assert_sound(judgement: &Judgement) {
    for lock in &judgement.locks {
        let overlaps = lock.violations.count + lock.zombies.count + lock.uncertain.count;
        assert_eq!((overlaps, lock.order.too_early, lock.stuck), (0, 0, 0), "{judgement:?}");
        // `story::check` requires one checked acquisition.
        let checked = lock.seen_inside.max(lock.order.waited);
        let expected = if lock.contended && checked > 0 { "held" } else { "unknown" };
        assert_eq!(judgement.verdict.word(), expected, "{judgement:?}");
    }
}

/// Adds an intruder that enters and leaves right after an acquisition. Also returns the lines of the overlap, in
/// the order in which a finding lists them.
fn with_stranger(story: &str, which: usize) -> Option<(String, Vec<u64>)> {
    let lines: Vec<&str> = story.lines().collect();
    let entries: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains("acquire ok")).collect();
    let entry = *entries.get(which % entries.len().max(1))?;
    let mut words = lines[entry].split_whitespace();
    let (t, who) = (words.next()?, words.next()?);
    let stranger = ["acquire invoke", "acquire ok", "release invoke", "release ok"];
    let stranger: Vec<String> = stranger.iter().map(|step| format!("{t} a/99 {step}")).collect();
    let mut told: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    told.splice(entry + 1..entry + 1, stranger);
    let of_holder = |step: &str| {
        let is = |line: &String| line.split_whitespace().skip(1).take(3).eq([who, "release", step]);
        told.iter().skip(entry).position(is).map(|at| entry + at)
    };
    let release = of_holder("invoke");
    if release.is_some_and(|at| told[at].split_whitespace().next() == Some(t)) {
        return None; // Within one microsecond, exits come first.
    }
    if release.is_some() && of_holder("ok").is_none() {
        return None; // The release has no reply, so the overlap might be classified as uncertain.
    }
    // Line numbers start at 0 in the story, but at 1 in a finding.
    let shown = [Some(entry), Some(entry + 2), Some(entry + 3), release];
    let shown = shown.into_iter().flatten().map(|at| at as u64 + 1).collect();
    Some((told.join("\n"), shown))
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Mutex), Just(Kind::Semaphore), Just(Kind::ReadWrite)]
}

/// Random events, most of them in an impossible order.
fn nonsense() -> impl Strategy<Value = Vec<(u8, u8, u8, u8)>> {
    prop::collection::vec((0..3_u8, 0..16_u8, 0..6_u8, any::<u8>()), 0..60)
}

fn told(kind: Kind, events: &[(u8, u8, u8, u8)]) -> String {
    let mut story = simulated(kind, true, false, &[]);
    for (t, (who, what, extra, number)) in events.iter().enumerate() {
        let what = match what {
            0..4 => format!("acquire {}", ["invoke", "ok", "fail", "unknown"][usize::from(*what)]),
            4..8 => format!("release {}", ["invoke", "ok", "fail", "unknown"][usize::from(*what - 4)]),
            8..12 => format!(
                "write {} accepted={}",
                ["invoke", "ok", "fail", "unknown"][usize::from(*what - 8)],
                number.is_multiple_of(2)
            ),
            12 => "session suspended".to_owned(),
            13 => "session connected".to_owned(),
            _ => "session expired".to_owned(),
        };
        let extra = match extra {
            0 => format!("depth={}", number % 4),
            1 => format!("token={number} zxid={number}"),
            2 => format!("deleted_zxid={number}"),
            3 => format!("session={}", number % 3),
            4 => "state=expired".to_owned(),
            _ => String::new(),
        };
        writeln!(story, "{t} a/{who} {what} {extra}").unwrap();
    }
    story
}

proptest! {
    #![proptest_config(crate::cases())]

    #[test]
    fn random_histories_of_a_correct_lock_are_never_judged_violated(
        kind in kind(),
        fair in any::<bool>(),
        faults in any::<bool>(),
        choices in prop::collection::vec(any::<u16>(), 0..400),
    ) {
        assert_sound(&judged(&simulated(kind, fair, faults, &choices)));
    }

    #[test]
    fn a_single_overlap_is_reported_with_the_lines_of_both_holders(
        fair in any::<bool>(),
        choices in prop::collection::vec(any::<u16>(), 0..200),
        which in any::<usize>(),
    ) {
        let story = simulated(Kind::Mutex, fair, false, &choices);
        if let Some((story, shown)) = with_stranger(&story, which) {
            let judgement = judged(&story);
            prop_assert_eq!(judgement.verdict.word(), "violated");
            prop_assert_eq!(judgement.findings.len(), 1, "{:?}", judgement.findings);
            let finding = &judgement.findings[0];
            let lines: Vec<u64> = finding.lines.iter().map(|place| place.line).collect();
            prop_assert_eq!((finding.breach, lines), (Breach::Violation, shown));
        }
    }

    #[test]
    fn checker_never_panics_on_contradictory_events(
        kind in kind(),
        events in nonsense(),
    ) {
        let _ = check_text(lines(&told(kind, &events)).as_bytes());
    }

    #[test]
    fn checker_never_panics_on_a_damaged_history(
        choices in prop::collection::vec(any::<u16>(), 0..60),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut text = lines(&simulated(Kind::Mutex, true, true, &choices)).into_bytes();
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let _ = check_text(&text);
    }

    #[test]
    fn checker_never_panics_on_arbitrary_text(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = check_text(&text);
    }
}
