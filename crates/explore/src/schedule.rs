//! A schedule: the faults of one run, and the order of the contenders' requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::contender_name;
use super::play::RELEASES;
use super::wire::{OperationKind, Request};
use zklockbench_record::StepKind;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Act {
    /// The request does not reach the server, and the connection breaks.
    LoseRequest,
    /// The server executes the request; its reply is lost with the connection. Or a notification is lost.
    LoseReply,
    /// The connection breaks after this reply or notification, or before this release.
    Cut,
    /// The session ends before this event.
    Expire,
    /// The contender's process is killed before this event; its session ends.
    Kill,
    /// The contender is frozen before this event, and its session ends. It resumes after the other contenders have
    /// finished.
    Freeze,
    /// Another program deletes the nodes of the contender's last create before this event.
    Delete,
    /// The event is delayed until the given event of another contender.
    Delay { past: String },
    /// The contender's acquire is cancelled before this event.
    GiveUp,
    /// The contender's acquire times out before this event.
    TimeOut,
}

impl Act {
    pub const NAMES: [&'static str; 9] = [
        "lost request",
        "lost reply",
        "cut connection",
        "expired session",
        "killed process",
        "frozen process",
        "deleted node",
        "delayed message",
        "abandoned wait",
    ];

    pub fn name(&self) -> &'static str {
        Self::NAMES[match self {
            Self::LoseRequest => 0,
            Self::LoseReply => 1,
            Self::Cut => 2,
            Self::Expire => 3,
            Self::Kill => 4,
            Self::Freeze => 5,
            Self::Delete => 6,
            Self::Delay { .. } => 7,
            Self::GiveUp | Self::TimeOut => 8,
        }]
    }

    /// Returns whether the contender's wait ends.
    pub fn gives_up(&self) -> bool {
        matches!(self, Self::GiveUp | Self::TimeOut)
    }

    pub fn is_delay(&self) -> bool {
        matches!(self, Self::Delay { .. })
    }
}

/// Server to which a contender's session moves after its connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Move {
    /// Another server that is up to date.
    Other,
    /// A server that has not applied the contender's last write, because the write is not committed.
    Stale,
}

impl Move {
    pub const NAMES: [&'static str; 2] = ["moved session", "stale server"];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A fault at a named event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    #[serde(flatten)]
    pub act: Act,
    pub at: String,
    /// Index of the contender that the fault hits; `None` means the event's own contender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<usize>,
    /// Whether the contender stays disconnected until the other contenders have nothing left to do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stays_away: bool,
    /// Server to which the contender's session moves; `None` if it returns to the same server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<Move>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Decision {
    /// Creates a fault that hits the event's own contender.
    pub fn new(act: Act, at: impl Into<String>) -> Self {
        Self { act, at: at.into(), victim: None, stays_away: false, moves: None }
    }

    /// Returns the same fault for the given contender.
    pub fn of(self, victim: usize) -> Self {
        Self { victim: Some(victim), ..self }
    }

    /// Returns whether the fault hits the contender.
    pub fn hits(&self, contender: usize) -> bool {
        let own = || self.at.split_once(": ").is_some_and(|(who, _)| who == contender_name(contender));
        self.victim.map_or_else(own, |victim| victim == contender)
    }

    /// Returns the name of the decision's class of faults.
    pub fn class(&self) -> &'static str {
        self.moves.map_or_else(|| self.act.name(), Move::name)
    }

    /// Returns why the decision is invalid for every lock; `None` if it is valid.
    pub fn mistake(&self) -> Option<String> {
        let breaks = matches!(self.act, Act::LoseRequest | Act::LoseReply | Act::Cut);
        let is_right = match self.moves {
            None => true,
            Some(Move::Other) => breaks,
            Some(Move::Stale) => self.act == Act::LoseReply && !self.stays_away,
        };
        (!is_right).then(|| format!("the fault at `{}` cannot move a session", self.at))
    }

    /// Describes the fault as a clause: ``c1's `create own node` was lost``.
    pub fn cause(&self) -> String {
        let (who, what) = self.at.split_once(": ").unwrap_or(("", &self.at));
        let (hit, event) = match self.victim {
            None => (who.to_owned(), format!("`{what}`")),
            Some(victim) => (contender_name(victim), format!("{who}'s `{what}`")),
        };
        let mut away = if self.stays_away {
            format!(", and {hit} could not connect for a while")
        } else {
            String::new()
        };
        match self.moves {
            None => {}
            Some(Move::Other) => away += &format!(", and {hit} moved to another server"),
            Some(Move::Stale) => {
                return format!("{who} moved to a server that had not yet applied its `{what}`");
            }
        }
        match &self.act {
            Act::LoseReply if what.starts_with("notification, ") => {
                format!("{who}'s `{what}` was lost{away}")
            }
            Act::LoseRequest => format!("{who}'s `{what}` was lost{away}"),
            Act::LoseReply => format!("{who}'s `{what}` was carried out, but its reply was lost{away}"),
            Act::Cut if what == RELEASES => format!("{hit}'s connection broke while it held the lock{away}"),
            Act::Cut => format!("{hit}'s connection broke after {event}{away}"),
            Act::Expire => format!("{hit}'s session ended before {event}"),
            Act::Kill => format!("{hit} was killed before {event}"),
            Act::Freeze => format!("{hit} was frozen before {event} until its session had ended"),
            Act::Delete => format!("another program deleted {hit}'s node before {event}"),
            Act::Delay { past } => format!("{who}'s `{what}` was delayed until after `{past}`"),
            Act::GiveUp => format!("{hit}'s wait was ended before {event}"),
            Act::TimeOut => format!("{hit}'s wait timed out before {event}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    pub contenders: usize,
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// Choices among the contenders' next requests, if all contenders start together. `None` means that each
    /// contender starts once the previous contender holds the lock or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<String>>,
    /// Contenders that acquire as readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<usize>,
    /// Whether every contender acquires twice, even without a fault.
    #[serde(default, skip_serializing_if = "is_false")]
    pub acquires_again: bool,
}

impl Schedule {
    pub fn undisturbed(contenders: usize) -> Self {
        Self::with(contenders, Vec::new())
    }

    pub fn with(contenders: usize, decisions: Vec<Decision>) -> Self {
        Self { contenders, decisions, order: None, readers: Vec::new(), acquires_again: false }
    }

    pub fn in_order(contenders: usize, order: Vec<String>) -> Self {
        Self { order: Some(order), ..Self::undisturbed(contenders) }
    }

    /// Returns whether the schedule blocks the servers' links.
    pub fn makes_stale(&self) -> bool {
        self.decisions.iter().any(|decision| decision.moves == Some(Move::Stale))
    }

    /// Returns whether a session moves between servers.
    pub fn moves(&self) -> bool {
        self.decisions.iter().any(|decision| decision.moves.is_some())
    }

    pub fn read_by(self, readers: &[usize]) -> Self {
        Self { readers: readers.to_vec(), ..self }
    }
}

/// One line of a run's trace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct TraceStep {
    pub contender: usize,
    pub kind: StepKind,
    /// The event's name, without the contender.
    pub what: String,
}

/// Nodes that an action reads and writes, used to decide which actions commute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    pub contender: usize,
    pub reads: Vec<String>,
    pub writes: Vec<String>,
    /// Whether the action depends on every other action, as the end of a hold does.
    pub is_global: bool,
}

impl Footprint {
    /// Returns the footprint of a contender's request.
    pub fn of(contender: usize, request: &Request) -> Self {
        let mut footprint = Self { contender, ..Self::default() };
        for operation in &request.operations {
            let (path, parent) = (operation.path.clone(), parent(&operation.path));
            match operation.kind {
                OperationKind::Create { .. } | OperationKind::Delete => {
                    footprint.writes.extend([path, parent])
                }
                OperationKind::Write => footprint.writes.push(path),
                OperationKind::Read => footprint.reads.push(path),
                OperationKind::Session => {}
            }
        }
        footprint
    }

    /// Returns whether the two actions have the same effect in either order.
    pub fn commutes_with(&self, other: &Self) -> bool {
        let touches = |paths: &[String], others: &Self| {
            paths.iter().any(|path| others.reads.contains(path) || others.writes.contains(path))
        };
        self.contender != other.contender
            && !self.is_global
            && !other.is_global
            && !touches(&self.writes, other)
            && !touches(&other.writes, self)
    }
}

fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or_else(String::new, |(parent, _)| parent.to_owned())
}

/// An action that the scheduler could have chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub name: String,
    pub footprint: Footprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_commute_unless_they_share_a_contender_or_a_written_node() {
        let action = |contender, reads: &[&str], writes: &[&str]| Footprint {
            contender,
            reads: reads.iter().map(|path| (*path).to_owned()).collect(),
            writes: writes.iter().map(|path| (*path).to_owned()).collect(),
            is_global: false,
        };
        let list = action(0, &["/l"], &[]);
        let create = action(1, &[], &["/l"]);
        assert!(!list.commutes_with(&create) && !create.commutes_with(&create));
        assert!(list.commutes_with(&action(1, &["/l"], &[])));
        assert!(create.commutes_with(&action(0, &["/l/a"], &[])));
        assert!(
            !list.commutes_with(&action(0, &["/other"], &[])),
            "actions of one contender must not commute"
        );
    }

    #[test]
    fn schedule_survives_a_json_round_trip() {
        let delay = Act::Delay { past: "c1: delete c1.node1".into() };
        let decisions = vec![
            Decision::new(Act::LoseReply, "c2: create own node"),
            Decision::new(delay, "c2: getChildren lock"),
            Decision { stays_away: true, ..Decision::new(Act::Cut, "c2: getChildren lock, reply") },
            Decision::new(Act::Kill, "c3: exists c2.node1").of(1),
            Decision { moves: Some(Move::Stale), ..Decision::new(Act::LoseReply, "c3: create own node") },
        ];
        let schedule = Schedule::with(3, decisions).read_by(&[2]);
        let text = serde_json::to_string(&schedule).unwrap();
        assert!(text.contains(r#"{"do":"lose-reply","at":"c2: create own node"}"#), "{text}");
        assert!(text.contains(r#""at":"c3: create own node","moves":"stale"}"#), "{text}");
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), schedule);
    }

    #[test]
    fn only_connection_faults_can_move_a_session() {
        let moved = |act, moves| Decision { moves: Some(moves), ..Decision::new(act, "c1: sync lock") };
        assert_eq!(moved(Act::Cut, Move::Other).mistake(), None);
        assert_eq!(moved(Act::LoseReply, Move::Stale).mistake(), None);
        assert!(moved(Act::LoseRequest, Move::Stale).mistake().is_some());
        assert!(moved(Act::Kill, Move::Other).mistake().is_some());
    }

    #[test]
    fn cause_identifies_the_contender_hit_by_the_fault() {
        let event = "c1: delete c1.node1";
        let outage = Decision { stays_away: true, ..Decision::new(Act::LoseRequest, event) };
        assert_eq!(outage.cause(), "c1's `delete c1.node1` was lost, and c1 could not connect for a while");
        let found = Decision::new(Act::GiveUp, event).of(1).cause();
        assert_eq!(found, "c2's wait was ended before c1's `delete c1.node1`");
        let found = Decision::new(Act::LoseReply, "c2: notification, c1.node1 deleted").cause();
        assert_eq!(found, "c2's `notification, c1.node1 deleted` was lost");
        let held = Decision::new(Act::Cut, "c1: releases").cause();
        assert_eq!(held, "c1's connection broke while it held the lock");
        let found = Decision::new(Act::TimeOut, event).of(1).cause();
        assert_eq!(found, "c2's wait timed out before c1's `delete c1.node1`");
        let moved = Decision { moves: Some(Move::Other), ..Decision::new(Act::LoseReply, event) };
        assert_eq!(
            moved.cause(),
            "c1's `delete c1.node1` was carried out, but its reply was lost, and c1 moved to another server"
        );
    }
}
