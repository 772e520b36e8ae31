//! The end of a history: what became of each lock, and the lines that show what went wrong.

use super::checker::{Checker, HistoryEnd};
use super::judgement::{Breach, Finding, Judgement, LockReport, Overlaps};
use super::lock::Lock;
use super::occupancy::{Example, Occupancy};
use super::sessions::end_of_history;
use super::turn::At;
use super::verdict;
use crate::record::history::LinePosition;
use crate::words::units::format_micros;

const REPORTED: usize = 20;

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
        }
        for lock in &self.locks {
            findings.extend(self.findings_of(lock));
        }
        let locks: Vec<LockReport> = self.locks.iter().filter(|lock| lock.was_used()).map(report).collect();
        let (verdict, notes) = verdict::of(&locks, self.complete, ending);
        Judgement {
            verdict,
            locks,
            findings: first_of_each(findings),
            notes,
            events: self.events,
            contenders: self.contenders.all.len(),
            clocks: self.clocks.count(),
        }
    }

    /// What is still open is closed; gives the acquires that are stuck.
    fn end_contenders(&mut self) -> Vec<Finding> {
        let mut stuck = Vec::new();
        let complete = self.complete == Some(true);
        for contender in &mut self.contenders.all {
            let heard = self.clocks.last_of(contender.process);
            let name =
                format!("contender {} of `{}`", contender.number, self.clocks.process(contender.process));
            for (number, stand) in &mut contender.stands {
                let lock = &mut self.locks[*number];
                let lived = |since: LinePosition| complete || heard.place >= since;
                end_of_history(stand, lock, heard.clock, lived);
                let Some(asked) = stand.asked.filter(|_| stand.at == At::Asking) else { continue };
                if complete || lock.occupancy(heard.clock).waits.is_stuck(&asked, heard.t_us) {
                    lock.stuck += 1;
                    let what = format!("{name} asked and got no answer");
                    let lines = vec![asked.at.place];
                    stuck.push(Finding { breach: Breach::Stuck, lock: lock.name.clone(), what, lines });
                } else {
                    lock.unfinished += 1;
                }
            }
        }
        stuck
    }

    fn findings_of(&self, lock: &Lock) -> Vec<Finding> {
        let finding = |breach, what, mut lines: Vec<LinePosition>| {
            lines.sort_unstable();
            lines.dedup();
            Finding { breach, lock: lock.name.clone(), what, lines }
        };
        let overlaps =
            lock.occupancies.iter().flat_map(|(_, occupancy)| &occupancy.examples).map(|example| {
                let lines = example.inside.lines().chain(example.entered.lines()).collect();
                finding(example.breach, self.describe(example), lines)
            });
        let early = lock.order.examples.iter().map(|(before, next)| {
            let zxid = |zxid: Option<i64>| zxid.map_or_else(|| "?".to_owned(), |zxid| zxid.to_string());
            let what = format!(
                "{} found itself the holder at zxid {}, but the node of {} was deleted at zxid {}",
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

    fn describe(&self, example: &Example) -> String {
        let why = match example.breach {
            Breach::Violation => "whose session was alive",
            Breach::Zombie => "after a session had been suspended or had expired",
            _ => "and it is unknown whether a session had ended",
        };
        format!(
            "{} entered at {} µs while {} was inside, {why}; both were inside for {}",
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

/// The first few of each kind, in the order of their lines.
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

impl Lock {
    fn was_used(&self) -> bool {
        let writes = self.fencing.report;
        !self.occupancies.is_empty() || writes.accepted + writes.stale_rejected + writes.other_rejected > 0
    }
}

fn report(lock: &Lock) -> LockReport {
    let sum = |class: fn(&Occupancy) -> Overlaps| {
        let mut all = Overlaps::default();
        lock.occupancies.iter().for_each(|(_, occupancy)| all.merge(class(occupancy)));
        all
    };
    LockReport {
        name: lock.name.clone(),
        kind: lock.kind,
        acquired: lock.acquired,
        failed: lock.failed,
        unknown: lock.unknown,
        waited: lock.kept_out.waited,
        seen_inside: lock.kept_out.as_many_as(),
        contended: lock.contended,
        several_clocks: lock.occupancies.iter().filter(|(_, occupancy)| occupancy.entries > 0).count() > 1,
        violations: sum(|occupancy| occupancy.violations),
        zombies: sum(|occupancy| occupancy.zombies),
        uncertain: sum(|occupancy| occupancy.uncertain),
        ignored_expiry: lock.occupancies.iter().map(|(_, occupancy)| occupancy.ignored_expiry).sum(),
        order: lock.order.report,
        writes: lock.fencing.report,
        stuck: lock.stuck,
        unfinished: lock.unfinished,
    }
}
