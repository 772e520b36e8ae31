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
    for moment in moments {
        let session = moment.session.map(|session| format!("0x{session:x}"));
        let lock = names.get(moment.lock).map_or("", String::as_str);
        let deleted = |czxid: i64| trial.deletions.get(&czxid).copied();
        writer.write(&event(moment, session.as_deref(), lock, deleted))?;
    }
    writer.finish()
}

fn event<'a>(
    moment: &Moment,
    session: Option<&'a str>,
    lock: &'a str,
    deleted: impl Fn(i64) -> Option<i64>,
) -> Event<'a> {
    let acquire = |step: Step, mode: Mode, token: Option<i64>| {
        What::Acquire(Acquire { lock, step, mode, leases: 1, depth: None, token, zxid: None })
    };
    let release = |step: Step, deleted_zxid: Option<i64>| What::Release(Release { lock, step, deleted_zxid });
    let (what, state) = match moment.deed {
        Deed::Asks(mode) => (acquire(Step::Invoke, mode, None), None),
        Deed::Enters(mode, token) => (acquire(Step::Ok, mode, token), None),
        Deed::Fails(mode) => (acquire(Step::Fail, mode, None), None),
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
