//! Ends a history: resolves open states, and reports on each lock with the relevant lines.

use super::super::contender::{At, Stand};
use super::super::judgement::{
    Breach, Finding, FoundViolation, HistoryEnd, Judgement, LockReport, Overlaps, describe_evidence,
    unless_interfered, verdict,
};
use super::super::occupancy::{Example, Occupancy};
use super::super::overlap::Traces;
use super::{Checker, Lock};
use crate::weigh::Soundness;
use zklockbench_core::units::format_micros;
use zklockbench_record::history::{LinePosition, SessionState};
use zklockbench_record::{Holder, KeptOut, Violation};

/// Maximum number of reported findings per kind.
const REPORTED: usize = 20;

/// Resolves a hold that is open at the end. `lived` returns whether its session was alive at a line.
fn end_of_history(stand: &mut Stand, lock: &mut Lock, clock: usize, lived: impl Fn(LinePosition) -> bool) {
    let Some(hold) = stand.hold.take() else { return };
    let occupancy = lock.occupancy(clock);
    match stand.at {
        At::Inside | At::AskingAgain | At::Easing if stand.lost => occupancy.vanish(hold),
        At::Inside | At::AskingAgain | At::Easing => occupancy.remain(hold, lived),
        At::NotLet if stand.lost => occupancy.vanish(hold),
        At::NotLet if stand.failed.is_some() => {
            occupancy.remain(hold, |since| stand.failed >= Some(since) || lived(since));
        }
        At::NotLet | At::Leaving => occupancy.resolve(hold, Soundness::Unknown),
        At::Outside | At::Asking | At::Maybe => {}
    }
}

impl Checker {
    pub fn conclude(mut self, ending: HistoryEnd) -> Judgement {
        if ending.cut_off_at.is_some() {
            self.complete = Some(false);
        }
        let mut findings = self.end_contenders();
        for lock in &mut self.locks {
            let clocks = &self.clocks;
            lock.occupancies
                .iter_mut()
                .for_each(|(clock, occupancy)| occupancy.close(clocks.latest_us(*clock)));
            lock.order.close();
            lock.fencing.close();
        }
        for lock in &self.locks {
            findings.extend(self.findings_of(lock));
        }
        let kept_out = self.locks.iter().fold(KeptOut::default(), |all, lock| all + lock.kept_out);
        let refused = self.locks.iter().fold(KeptOut::default(), |all, lock| all + lock.refused);
        let violations = self.violations();
        let mut locks: Vec<LockReport> =
            self.locks.iter().filter(|lock| lock.was_used()).map(report).collect();
        locks.sort_by(|one, other| one.name.cmp(&other.name));
        let (verdict, notes) = verdict(&locks, self.complete, ending);
        Judgement {
            verdict: unless_interfered(self.interference.as_ref(), verdict),
            evidence: describe_evidence(&locks),
            locks,
            kept_out,
            refused,
            violations,
            findings: first_of_each(findings),
            notes,
            events: self.events,
            contenders: self.contenders.all.len(),
            clocks: self.clocks.count(),
        }
    }

    /// Resolves all open states and returns the stuck acquires.
    fn end_contenders(&mut self) -> Vec<Finding> {
        let mut stuck = Vec::new();
        let complete = self.complete == Some(true);
        for contender in &mut self.contenders.all {
            let heard = self.clocks.last_of(contender.process);
            let name =
                format!("contender {} of `{}`", contender.number, self.clocks.process(contender.process));
            for (number, stand) in &mut contender.stands {
                let lock = &mut self.locks[*number];
                let is_connected = contender.state == SessionState::Connected;
                let lived = |since: LinePosition| is_connected && (complete || heard.place >= since);
                end_of_history(stand, lock, heard.clock, lived);
                let Some(asked) = stand.asked.filter(|_| stand.at == At::Asking) else { continue };
                if complete || lock.occupancy(heard.clock).waits.is_stuck(&asked, heard.t_us) {
                    lock.report.stuck += 1;
                    let what = format!("{name} requested the lock and got no answer");
                    let lines = vec![asked.at.place];
                    stuck.push(Finding {
                        breach: Breach::Stuck,
                        lock: lock.report.name.clone(),
                        what,
                        lines,
                    });
                } else {
                    lock.report.unfinished += 1;
                }
            }
        }
        stuck
    }

    fn findings_of(&self, lock: &Lock) -> Vec<Finding> {
        let finding = |breach, what, mut lines: Vec<LinePosition>| {
            lines.sort_unstable();
            lines.dedup();
            Finding { breach, lock: lock.report.name.clone(), what, lines }
        };
        let overlaps =
            lock.occupancies.iter().flat_map(|(_, occupancy)| &occupancy.examples).map(|example| {
                let lines = example.inside.lines().chain(example.entered.lines()).collect();
                finding(example.breach, self.describe(example), lines)
            });
        let early = lock.order.examples.iter().map(|(before, next)| {
            let zxid = |zxid: Option<i64>| zxid.map_or_else(|| "?".to_owned(), |zxid| zxid.to_string());
            let what = format!(
                "{} found at zxid {} that it held the lock; the node of {} was not deleted until zxid {}",
                self.name(next.who),
                zxid(next.zxid),
                self.name(before.who),
                zxid(before.deleted)
            );
            let lines = [Some(before.acquired), before.released, Some(next.acquired)];
            finding(Breach::Order, what, lines.into_iter().flatten().collect())
        });
        let stale = lock.fencing.examples.iter().map(|(newer, own)| {
            let what = format!("token {} was accepted after token {}", own.token, newer.token);
            finding(Breach::StaleWrite, what, vec![newer.place, own.place])
        });
        overlaps.chain(early).chain(stale).collect()
    }

    /// First violations of each lock, in chronological order.
    fn violations(&self) -> Vec<FoundViolation> {
        let holder = |traces: &Traces| Holder {
            contender: usize::try_from(self.contenders.all[traces.who].number).unwrap_or(usize::MAX),
            sequence: None,
            czxid: traces.token,
            entered_us: i64::try_from(traces.entered_us).unwrap_or(i64::MAX),
        };
        let of_lock = |(number, lock): (usize, &Lock)| {
            let examples = lock.occupancies.iter().flat_map(|(_, occupancy)| &occupancy.examples);
            let examples = examples.filter(|example| example.breach == Breach::Violation);
            let process =
                |traces: &Traces| self.clocks.process(self.contenders.all[traces.who].process).to_owned();
            let found = |example: &Example| FoundViolation {
                lock: lock.report.name.clone(),
                violation: Violation {
                    lock: number,
                    inside: holder(&example.inside),
                    entered: holder(&example.entered),
                    at: example.since_us,
                    timeline: None,
                },
                beside: example.beside.iter().map(|who| self.process_and_number(*who)).collect(),
                clock: self
                    .clocks
                    .clock_of_process(self.contenders.all[example.inside.who].process)
                    .to_owned(),
                processes: [process(&example.inside), process(&example.entered)],
                together_us: example.length_us,
            };
            examples.map(found).collect::<Vec<_>>()
        };
        let mut violations: Vec<_> = self.locks.iter().enumerate().flat_map(of_lock).collect();
        violations.sort_by_key(|found| found.violation.at);
        violations
    }

    fn process_and_number(&self, who: usize) -> (String, u64) {
        let contender = &self.contenders.all[who];
        (self.clocks.process(contender.process).to_owned(), contender.number)
    }

    fn describe(&self, example: &Example) -> String {
        let why = match example.breach {
            Breach::Violation => "with a live session",
            Breach::Zombie => "after a session was suspended or expired",
            _ => "with an unknown session state",
        };
        format!(
            "{} acquired the lock at {} µs while {} held it {why}; the holds overlapped for {}",
            self.name(example.entered.who),
            example.since_us,
            self.name(example.inside.who),
            format_micros(example.length_us)
        )
    }

    fn name(&self, who: usize) -> String {
        let contender = &self.contenders.all[who];
        format!("contender {} of `{}`", contender.number, self.clocks.process(contender.process))
    }
}

/// First findings of each kind, in line order.
fn first_of_each(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| (a.breach, &a.lines).cmp(&(b.breach, &b.lines)));
    let mut count = (None, 0);
    findings.retain(|finding| {
        count =
            if count.0 == Some(finding.breach) { (count.0, count.1 + 1) } else { (Some(finding.breach), 1) };
        count.1 <= REPORTED
    });
    findings
}

fn report(lock: &Lock) -> LockReport {
    let sum = |class: fn(&Occupancy) -> Overlaps| {
        let each = lock.occupancies.iter().map(|(_, occupancy)| class(occupancy));
        each.fold(Overlaps::default(), Overlaps::and)
    };
    LockReport {
        waited: lock.kept_out.waited,
        seen_inside: lock.kept_out.as_many_as(),
        several_clocks: lock.occupancies.iter().filter(|(_, occupancy)| occupancy.entries > 0).count() > 1,
        violations: sum(|occupancy| occupancy.violations),
        zombies: sum(|occupancy| occupancy.zombies),
        uncertain: sum(|occupancy| occupancy.uncertain),
        ignored_expiry: lock.occupancies.iter().map(|(_, occupancy)| occupancy.ignored_expiry).sum(),
        order: lock.order.report,
        writes: lock.fencing.report,
        ..lock.report.clone()
    }
}
