//! A scenario file as read: its valid parts, before combinations are checked.
//!
//! Names in lists are checked against the [`Catalog`]; `rules` and `fault_rules` check combinations.

use std::ops::Range;
use std::time::Duration;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use super::arrivals::{Arrivals, Open, Replay};
use super::faults::{FaultEntry, fault};
use super::fields::{CLIENT, ENSEMBLE, FAULT, GATE, Section};
use super::file::{self, Client, Ensemble, LoadWord, Top};
use super::gate::{Condition, Gate, Known, KnownCells, parse};
use super::model::{ClientKind, EnsembleChoice, Load, Precision, RateOf, Scenario, Stop};
use super::read::{Given, Places, Sink, TomlValue, expect, known_keys, list, section};
use super::shapes::{Process, ReadTrace};
use super::strategies::{ListedStrategy, apply_poll_interval, strategies};
use zklockbench_core::catalog::LockCard;
use zklockbench_core::catalog::fault::FaultCard;
use zklockbench_core::measure::FigureCard;
use zklockbench_core::units::shown;

#[derive(Debug, Clone)]
pub struct Catalog {
    pub locks: Vec<LockCard>,
    pub faults: Vec<FaultCard>,
    /// Metrics that gates can use, except statistics of latency samples.
    pub figures: Vec<&'static FigureCard>,
    /// Whether the user provided commands to disturb the servers of an existing ensemble.
    pub has_host_commands: bool,
}

pub(super) struct Document<'c> {
    pub(super) catalog: &'c Catalog,
    /// Position of the first key, where missing keys are reported.
    start: usize,
    pub(super) said: Top,
    /// Positions of the top-level keys and of the ensemble's keys.
    pub(super) places: Places,
    pub(super) ensemble: Ensemble,
    pub(super) strategies: Vec<ListedStrategy<'c>>,
    pub(super) strategies_whole: bool,
    /// Arrival process as written. A process that takes a rate is stored at 1 arrival/s and scaled by
    /// `arrivals_at`.
    pub(super) arrivals: Option<(Process, Arrivals)>,
    pub(super) clients: Vec<Given<Client>>,
    /// Faults whose kind could be read.
    pub(super) faults: Vec<FaultEntry<'c>>,
    gates: Vec<Gate>,
}

impl<'c> Document<'c> {
    pub(super) fn read(
        root: &DeTable<'_>,
        catalog: &'c Catalog,
        traces: ReadTrace<'_>,
        sink: &Sink<'_>,
    ) -> Self {
        let root = known_keys(Section::Top, root, &[], |_| None, sink);
        let top: Given<Top> = section(Section::Top, &root, sink);
        let help = "write `[ensemble]` and, under it, `servers = 3` or `connect = \"zk1:2181\"`";
        let ensemble: Option<Given<Ensemble>> =
            root.get(ENSEMBLE).and_then(|value| keys(Section::Ensemble, value, "a table", help, sink));
        let ensemble = ensemble.unwrap_or_else(|| section(Section::Ensemble, &DeTable::new(), sink));
        let listed = root.get("strategies").map(|value| strategies(value, &catalog.locks, sink));
        let (mut strategies, strategies_whole) = listed.unwrap_or_default();
        if let Some(interval) = top.said.poll_interval {
            apply_poll_interval(&mut strategies, interval.0);
        }
        let arrivals = top.said.arrivals.clone().and_then(|process| {
            let at = top.places.value("arrivals").unwrap_or_default();
            Some((process.clone(), sink.checked(at, process.arrivals(traces))?))
        });
        let items = |key: &str, example: &str| {
            root.get(key).map(|value| list(key, value, example, sink)).unwrap_or_default().into_iter()
        };
        let clients =
            items(CLIENT, "share = 0.2; `contenders` sets the number of clients").filter_map(|item| {
                keys::<Client>(
                    Section::Client,
                    item,
                    "a kind of client",
                    "write { share = 0.2, hold = \"1s\" }",
                    sink,
                )
            });
        let faults = items(FAULT, "kind = \"kill\"").filter_map(|item| fault(item, &catalog.faults, sink));
        let (clients, faults) = (clients.collect(), faults.collect());
        let labels: Vec<String> = strategies.iter().map(|listed| listed.choice.label.clone()).collect();
        let contenders = top.said.contenders();
        let cells = contenders.as_ref().filter(|_| strategies_whole);
        let cells =
            cells.map(|contenders| KnownCells { strategies: &labels, locks: &catalog.locks, contenders });
        let known = Known { figures: &catalog.figures, cells };
        let gates = root.get(GATE).map(|value| gates(value, known, sink)).unwrap_or_default();
        Self {
            catalog,
            start: root.keys().map(|key| key.span().start).min().unwrap_or(0),
            said: top.said,
            places: top.places.and(ensemble.places),
            ensemble: ensemble.said,
            strategies,
            strategies_whole,
            arrivals,
            clients,
            faults,
            gates,
        }
    }

    /// Returns the position of `load`, or of the first key if `load` is missing.
    pub(super) fn load_key(&self) -> Range<usize> {
        self.places.key("load").unwrap_or(self.start..self.start)
    }

    pub(super) fn fewest_contenders(&self) -> Option<usize> {
        self.said.contenders()?.into_iter().min()
    }

    pub(super) fn most_contenders(&self) -> Option<usize> {
        self.said.contenders()?.into_iter().max()
    }

    pub(super) fn replay(&self) -> Option<&Replay> {
        match self.arrivals.as_ref().filter(|_| self.said.load == Some(LoadWord::Open))? {
            (_, Arrivals::Replay(replay)) => Some(replay),
            _ => None,
        }
    }

    /// Returns the length of the measured phase: `duration`, or else the length of the replay. `None` if neither is
    /// known.
    pub(super) fn measured(&self) -> Option<Duration> {
        let duration = self.said.duration.map(|duration| duration.0);
        duration.or_else(|| self.replay().map(Replay::lasts))
    }

    /// Returns the arrivals at this rate, or at the process's own rates if it has any.
    pub(super) fn arrivals_at(&self, rate: Option<f64>) -> Option<Arrivals> {
        let (process, arrivals) = self.arrivals.clone()?;
        if process.takes_rate() { Some(arrivals.times(rate?)) } else { Some(arrivals) }
    }

    /// Returns the maximum length of the warm-up, as specified or by default.
    pub(super) fn warm_up_at_most(&self) -> Duration {
        let warm_up = self.said.warm_up.unwrap_or_default().0;
        let changes = self.said.load == Some(LoadWord::Open)
            && self.arrivals.as_ref().is_some_and(|(_, arrivals)| !arrivals.is_stationary());
        let usual = if changes { warm_up } else { warm_up.saturating_mul(4) };
        self.said.warm_up_at_most.map_or(usual, |most| most.0)
    }

    /// Builds a kind of client, with missing keys taken from the top of the file.
    fn client(&self, kind: &Client) -> Option<ClientKind> {
        let top = &self.said;
        Some(ClientKind {
            share: kind.share?.0,
            hold: kind.hold.clone().or_else(|| top.hold.clone())?.0,
            think: kind.think.clone().or_else(|| top.think.clone())?.0,
            read_ratio: kind.read_ratio.or(top.read_ratio)?.0,
        })
    }

    pub(super) fn scenario(&self) -> Option<Scenario> {
        let top = &self.said;
        let load = match top.load? {
            LoadWord::Closed => Load::Closed,
            LoadWord::Batch => Load::Batch,
            LoadWord::Open => Load::Open(Open {
                arrivals: self.arrivals_at(top.rate.or(top.rate_each).map(|rate| rate.0))?,
                popularity: top.popularity?.into(),
                late: top.late?,
                backlog_at_most: top.backlog_at_most?.0,
            }),
        };
        let is_each = load.open().is_some() && top.rate_each.is_some();
        let stop = match (&load, top.duration) {
            (Load::Batch, _) => Stop::Acquisitions(1),
            (Load::Closed | Load::Open(_), Some(duration)) => Stop::After(duration.0),
            (Load::Open(_), None) => Stop::After(self.replay()?.lasts()),
            (Load::Closed, None) => Stop::Acquisitions(top.acquisitions?.0),
        };
        let ensemble = match (&self.ensemble.connect, &self.ensemble.compose) {
            (Some(connect), _) => EnsembleChoice::Connect(connect.0.clone()),
            (None, Some(file)) => EnsembleChoice::Compose(file.0.clone()),
            (None, None) => EnsembleChoice::Local {
                servers: self.ensemble.servers?.0,
                data_dir: self.ensemble.data_dir.as_ref().map(|path| path.0.clone()),
            },
        };
        let most = top.repetitions_at_most?.0;
        Some(Scenario {
            name: top.name.clone()?.0,
            description: top.description.clone()?,
            ensemble,
            strategies: self.strategies.iter().map(|listed| listed.choice.clone()).collect(),
            contenders: top.contenders()?,
            locks: top.locks?.0.unwrap_or(1),
            fresh_locks: top.locks?.0.is_none(),
            hold: top.hold.clone()?.0,
            think: top.think.clone()?.0,
            read_ratio: top.read_ratio?.0,
            clients: self.clients.iter().map(|kind| self.client(&kind.said)).collect::<Option<_>>()?,
            depth: top.depth?.0,
            load,
            rate_of: if is_each { RateOf::Each } else { RateOf::All },
            stop,
            ramp_up: top.ramp_up?.0,
            warm_up: top.warm_up?.0,
            warm_up_at_most: self.warm_up_at_most(),
            repetitions: top.repetitions?.0,
            precision: top.precision.map(|share| Precision { share: share.0, repetitions_at_most: most }),
            order: top.order?,
            seed: top.seed?.0,
            session_timeout: top.session_timeout?.0,
            acquire_timeout: top.acquire_timeout.map(|timeout| timeout.0),
            give_up_after: top.give_up_after?.0,
            session_each: top.sessions? == file::Sessions::PerAcquisition,
            in_doubt: top.in_doubt?.into(),
            on_lost: top.on_lost?,
            hold_limit: top.hold_limit.map(|limit| limit.0),
            evidence: top.evidence?.0,
            time_scale: top.time_scale?.0,
            faults: self.faults.iter().map(FaultEntry::choice).collect::<Option<_>>()?,
            gates: self.gates.clone(),
        })
    }
}

impl Top {
    pub(super) fn contenders(&self) -> Option<Vec<usize>> {
        Some(self.contenders.as_ref()?.iter().map(|count| count.get_ref().0).collect())
    }
}

/// Reads the keys of a table with its own header.
fn keys<T: Default + DeserializeOwned>(
    under: Section,
    value: &TomlValue<'_>,
    expected: &str,
    help: &str,
    sink: &Sink<'_>,
) -> Option<Given<T>> {
    let keys = expect(value.get_ref().as_table(), value, expected, help, sink)?;
    Some(section(under, &known_keys(under, keys, &[], |_| None, sink), sink))
}

/// Reads the gates and returns the valid ones. Cells in gates are not checked if the scenario's own
/// strategies or contenders could not be read.
fn gates(value: &TomlValue<'_>, known: Known<'_>, sink: &Sink<'_>) -> Vec<Gate> {
    if let DeValue::String(text) = value.get_ref() {
        let help = format!("put it in brackets: gate = [\"{}\"]", shown(text, 60));
        expect(None::<()>, value, "a list of gates", &help, sink);
        return condition(text, value.span(), known, sink).into_iter().map(unnamed).collect();
    }
    let items = list(GATE, value, "require = \"wait.p99 < 50ms\"", sink);
    items.into_iter().filter_map(|item| gate(item, known, sink)).collect()
}

fn unnamed(condition: Condition) -> Gate {
    Gate { name: None, condition }
}

/// Reads a gate: a table, or a bare condition.
fn gate(item: &TomlValue<'_>, known: Known<'_>, sink: &Sink<'_>) -> Option<Gate> {
    if let DeValue::String(text) = item.get_ref() {
        return condition(text, item.span(), known, sink).map(unnamed);
    }
    let help = "write { require = \"wait.p99 < 50ms\" }";
    let Given { said: file::Gate { require, name }, .. } = keys(Section::Gate, item, "a gate", help, sink)?;
    let require = require?;
    Some(Gate { name, condition: condition(require.get_ref(), require.span(), known, sink)? })
}

/// Reads a condition. Mistakes point at the offending part if the file contains the text unescaped.
fn condition(text: &str, at: Range<usize>, known: Known<'_>, sink: &Sink<'_>) -> Option<Condition> {
    let mistake = match parse(text, known) {
        Ok(condition) => return Some(condition),
        Err(mistake) => mistake,
    };
    match sink.within(&at, text, &mistake.span) {
        Some(span) => sink.error(span, mistake.message, mistake.help),
        None => {
            let message = format!("column {} of the gate: {}", mistake.column, mistake.message);
            sink.error(at, message, mistake.help);
        }
    }
    None
}
