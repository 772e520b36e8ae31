//! JSON of a history's lines. Phases, states and modes are the lower-case names of `Step`, `SessionState` and
//! `Mode`, so renaming a variant changes the format.
//!
//! Readers ignore unknown fields. They reject unknown operations, which would change the meaning of the
//! history.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use zklockbench_core::catalog::Mode;
use zklockbench_record::StepKind;
use zklockbench_record::history::{
    Acquire, Event, Header, LockKind, Release, SessionState, StatedClaim, Step, Trace, What, Write,
};

/// Name of the format in the first line.
pub const FORMAT: &str = "zklockbench-history";
pub const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
pub struct HeaderLine {
    format: String,
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    complete: Option<bool>,
    locks: BTreeMap<String, LockLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    interference: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LockLine {
    kind: KindWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    leases: Option<u32>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KindWord {
    Mutex,
    Semaphore,
    ReadWrite,
}

/// Format and version, parsed before the rest of the header.
#[derive(Debug, Deserialize)]
pub struct Versioned {
    pub format: String,
    pub version: u32,
}

impl HeaderLine {
    pub fn header(self) -> Result<Header, String> {
        let kind = |name: String, lock: LockLine| match (lock.kind, lock.leases) {
            (KindWord::Mutex, _) => Ok((name, LockKind::Mutex)),
            (KindWord::ReadWrite, _) => Ok((name, LockKind::ReadWrite)),
            (KindWord::Semaphore, Some(leases)) if leases > 0 => Ok((name, LockKind::Semaphore(leases))),
            (KindWord::Semaphore, _) => Err(format!("semaphore `{name}`: `leases` must be at least 1")),
        };
        let locks = self.locks.into_iter().map(|(name, lock)| kind(name, lock)).collect::<Result<_, _>>()?;
        Ok(Header { complete: self.complete, locks, interference: self.interference })
    }
}

impl From<&Header> for HeaderLine {
    fn from(header: &Header) -> Self {
        let line = |kind: &LockKind| match kind {
            LockKind::Mutex => LockLine { kind: KindWord::Mutex, leases: None },
            LockKind::ReadWrite => LockLine { kind: KindWord::ReadWrite, leases: None },
            LockKind::Semaphore(leases) => LockLine { kind: KindWord::Semaphore, leases: Some(*leases) },
        };
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            complete: header.complete,
            locks: header.locks.iter().map(|(name, kind)| (name.clone(), line(kind))).collect(),
            interference: header.interference.clone(),
        }
    }
}

/// Any line after the header. Missing values are absent, never `null` or 0.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct EventLine<'a> {
    t_us: u64,
    #[serde(borrow)]
    process: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    clock: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contender: Option<u64>,
    op: OpWord,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    lock: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phase: Option<Step>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    leases: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    session: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<SessionState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zxid: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alone: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted_zxid: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    there_zxid: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<StepKind>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    what: Option<Cow<'a, str>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OpWord {
    Acquire,
    Release,
    #[default]
    Session,
    Write,
    Trace,
}

impl EventLine<'_> {
    pub fn event(&self) -> Result<Event<'_>, String> {
        self.check_zxids()?;
        let what = self.what()?;
        match (self.op, self.contender, self.state) {
            (OpWord::Session, _, None) => return Err(missing("a `session` event", "state")),
            (OpWord::Acquire | OpWord::Release | OpWord::Write, None, _) => {
                return Err(missing("this event", "contender"));
            }
            _ => {}
        }
        Ok(Event {
            t_us: self.t_us,
            process: &self.process,
            clock: self.clock.as_deref(),
            contender: self.contender,
            session: self.session.as_deref(),
            state: self.state,
            what,
        })
    }

    /// Tokens and zxids are transaction numbers, which are never negative.
    fn check_zxids(&self) -> Result<(), String> {
        let given = [
            ("token", self.token),
            ("zxid", self.zxid),
            ("deleted_zxid", self.deleted_zxid),
            ("there_zxid", self.there_zxid),
        ];
        match given.iter().find_map(|(field, zxid)| Some((field, zxid.filter(|zxid| *zxid < 0)?))) {
            Some((field, zxid)) => Err(format!("`{field}` is {zxid}, which is not a transaction number")),
            None => Ok(()),
        }
    }

    fn what(&self) -> Result<What<'_>, String> {
        if self.op == OpWord::Session {
            return Ok(What::Session);
        }
        if self.op == OpWord::Trace {
            let kind = self.kind.ok_or_else(|| missing("a `trace` event", "kind"))?;
            let what = self.what.as_deref().ok_or_else(|| missing("a `trace` event", "what"))?;
            return Ok(What::Trace(Trace { kind, what }));
        }
        let lock = self.lock.as_deref().ok_or_else(|| missing("this event", "lock"))?;
        let called = || self.phase.ok_or_else(|| missing("this event", "phase"));
        Ok(match self.op {
            OpWord::Acquire => What::Acquire(Acquire {
                lock,
                step: called()?,
                claim: StatedClaim { mode: self.mode, leases: self.leases },
                depth: self.depth,
                token: self.token,
                zxid: self.zxid,
            }),
            OpWord::Release => What::Release(Release {
                lock,
                step: called()?,
                alone: self.alone.unwrap_or(false),
                deleted_zxid: self.deleted_zxid,
                there_zxid: self.there_zxid,
            }),
            // A resource that writes its own history records one line per write, which needs no phase.
            OpWord::Session | OpWord::Trace | OpWord::Write => What::Write(Write {
                lock,
                step: self.phase.unwrap_or(Step::Ok),
                token: self.token,
                accepted: self.accepted,
                zxid: self.zxid,
            }),
        })
    }
}

fn missing(of: &str, field: &str) -> String {
    format!("{of} needs `{field}`")
}

impl<'a> From<&Event<'a>> for EventLine<'a> {
    fn from(event: &Event<'a>) -> Self {
        let empty = Self {
            t_us: event.t_us,
            process: event.process.into(),
            clock: event.clock.map(Into::into),
            contender: event.contender,
            lock: event.what.lock().map(Into::into),
            session: event.session.map(Into::into),
            state: event.state,
            ..Self::default()
        };
        match event.what {
            What::Session => empty,
            What::Acquire(Acquire { step, claim, depth, token, zxid, .. }) => Self {
                op: OpWord::Acquire,
                phase: Some(step),
                mode: claim.mode,
                leases: claim.leases,
                depth,
                token,
                zxid,
                ..empty
            },
            What::Release(Release { step, alone, deleted_zxid, there_zxid, .. }) => Self {
                op: OpWord::Release,
                phase: Some(step),
                alone: alone.then_some(true),
                deleted_zxid,
                there_zxid,
                ..empty
            },
            What::Write(Write { step, token, accepted, zxid, .. }) => {
                Self { op: OpWord::Write, phase: Some(step), token, accepted, zxid, ..empty }
            }
            What::Trace(Trace { kind, what }) => {
                Self { op: OpWord::Trace, kind: Some(kind), what: Some(what.into()), ..empty }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_record::history::LockClaim;

    fn event(what: What<'_>) -> Event<'_> {
        let (session, state) = (Some("0x1"), Some(SessionState::Suspended));
        Event { t_us: 7, process: "w1", clock: Some("host"), contender: Some(3), session, state, what }
    }

    #[test]
    fn every_kind_of_event_round_trips() {
        let lock = "a \"lock\"";
        for step in [Step::Invoke, Step::Ok, Step::Fail, Step::Unknown] {
            let (token, zxid) = (Some(5), Some(i64::MAX));
            let kinds = [
                What::Acquire(Acquire {
                    lock,
                    step,
                    claim: StatedClaim { mode: Some(Mode::Read), leases: Some(2) },
                    depth: Some(2),
                    token,
                    zxid,
                }),
                What::Release(Release {
                    lock,
                    step,
                    alone: step == Step::Invoke,
                    deleted_zxid: zxid,
                    there_zxid: token,
                }),
                What::Write(Write { lock, step, token, accepted: Some(false), zxid }),
                What::Session,
                What::Trace(Trace { kind: StepKind::LostReply, what: "create" }),
            ];
            for what in kinds {
                let text = serde_json::to_string(&EventLine::from(&event(what))).unwrap();
                let line: EventLine<'_> = serde_json::from_str(&text).unwrap();
                assert_eq!(line.event(), Ok(event(what)), "{text}");
            }
        }
    }

    #[test]
    fn default_values_are_omitted() {
        let (lock, step, claim) = ("a", Step::Invoke, LockClaim::WRITE.into());
        let usual = Acquire { lock, step, claim, depth: None, token: None, zxid: None };
        let event = Event { clock: None, session: None, state: None, ..event(What::Acquire(usual)) };
        let text = serde_json::to_string(&EventLine::from(&event)).unwrap();
        let expected =
            r#"{"t_us":7,"process":"w1","contender":3,"op":"acquire","lock":"a","phase":"invoke"}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn header_round_trips() {
        let locks = [
            ("a".to_owned(), LockKind::Mutex),
            ("b".to_owned(), LockKind::Semaphore(3)),
            ("c".to_owned(), LockKind::ReadWrite),
        ];
        let interference = vec!["session 0x1 deleted /a".to_owned()];
        let header = Header { complete: Some(true), locks: locks.into(), interference };
        let text = serde_json::to_string(&HeaderLine::from(&header)).unwrap();
        assert_eq!(serde_json::from_str::<HeaderLine>(&text).unwrap().header(), Ok(header), "{text}");
    }
}
