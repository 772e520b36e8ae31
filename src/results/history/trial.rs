//! A trial's history as a file.

use std::collections::BTreeMap;
use std::path::Path;

use super::HistoryWriter;
use crate::catalog::Mode;
use crate::error::Error;
use crate::record::history::{Acquire, Event, Header, LockKind, Release, Step, What, Write};
use crate::record::{Completeness, Deed, Moment, Trial};

/// One process made it, by one clock.
const PROCESS: &str = "run";

/// Writes what the contenders of a trial did, in the order of time.
///
/// # Errors
/// When the disk refuses.
pub fn write_trial(path: &Path, trial: &Trial, kind: LockKind) -> Result<(), Error> {
    let names: Vec<String> = (0..trial.locks).map(|lock| format!("lock-{lock}")).collect();
    let complete = Some(trial.completeness == Completeness::Complete);
    let locks: BTreeMap<String, LockKind> = names.iter().map(|name| (name.clone(), kind)).collect();
    let mut writer = HistoryWriter::create(path, &Header { complete, locks })?;
    let mut moments: Vec<&Moment> = trial.history.iter().collect();
    moments.sort_by_key(|moment| moment.at);
    let never_ended = waits_of_the_stuck(&moments, trial);
    for (_, moment) in moments.into_iter().enumerate().filter(|(place, _)| !never_ended.contains(place)) {
        let session = moment.session.map(|session| format!("0x{session:x}"));
        let lock = names.get(moment.lock).map_or("", String::as_str);
        let deleted = |czxid: i64| trial.deletions.get(&czxid).copied();
        writer.write(&event(moment, session.as_deref(), lock, deleted))?;
    }
    writer.finish()
}

/// The places of moments that only say that the run gave up waiting: a stuck contender's last acquire has no end.
fn waits_of_the_stuck(moments: &[&Moment], trial: &Trial) -> Vec<usize> {
    let is_of_an_acquire = |deed: &Deed| matches!(deed, Deed::Asks(_) | Deed::Enters { .. } | Deed::Fails(_));
    let last = |contender: usize| {
        moments.iter().rposition(|moment| moment.contender == contender && is_of_an_acquire(&moment.deed))
    };
    let lasts = trial.stuck.iter().filter_map(|stuck| last(stuck.contender));
    lasts.filter(|place| matches!(moments[*place].deed, Deed::Fails(_))).collect()
}

fn event<'a>(
    moment: &Moment,
    session: Option<&'a str>,
    lock: &'a str,
    deleted: impl Fn(i64) -> Option<i64>,
) -> Event<'a> {
    let acquire = |step: Step, mode: Mode| {
        What::Acquire(Acquire { lock, step, mode, leases: 1, depth: None, token: None, zxid: None })
    };
    let release = |step: Step, deleted_zxid: Option<i64>| What::Release(Release { lock, step, deleted_zxid });
    let (what, state) = match moment.deed {
        Deed::Asks(mode) => (acquire(Step::Invoke, mode), None),
        Deed::Enters { mode, token, zxid } => {
            let step = Step::Ok;
            (What::Acquire(Acquire { lock, step, mode, leases: 1, depth: None, token, zxid }), None)
        }
        Deed::Fails(mode) => (acquire(Step::Fail, mode), None),
        Deed::Leaves => (release(Step::Invoke, None), None),
        Deed::HasLeft(token) => (release(Step::Ok, token.and_then(deleted)), None),
        Deed::MayHaveLeft => (release(Step::Unknown, None), None),
        Deed::CouldNotLeave => (release(Step::Fail, None), None),
        Deed::Writes(token, accepted) => {
            let (step, token, accepted) = (Step::Ok, Some(token), Some(accepted));
            (What::Write(Write { lock, step, token, accepted, zxid: None }), None)
        }
        Deed::Session(state) => (What::Session, Some(state)),
    };
    let contender = u64::try_from(moment.contender).ok();
    Event { t_us: moment.at, process: PROCESS, clock: None, contender, session, state, what }
}
