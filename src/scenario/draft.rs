//! What could be read of a scenario file, key by key, before it is known whether that makes a scenario.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::catalog::Catalog;
use super::clients::{ClientDraft, ClientKind, clients};
use super::distribution::Distribution;
use super::faults::{FaultDraft, faults};
use super::fields::{CLIENT, ENSEMBLE, FAULT, GATE, POLL_INTERVAL_PARAM, Section};
use super::gate::{Gate, Known, KnownCells};
use super::gates::gates;
use super::keys::{Keys, Places};
use super::model::{EnsembleChoice, InDoubt, Load, Order, Precision, RateOf, Scenario, Stop};
use super::open::{OpenKeys, ReadTrace};
use super::read::{Sink, TomlValue, wrong_type};
use super::strategies::{ListedStrategy, apply_poll_interval, strategies};
use super::values;
use crate::words::measure::FigureCard;

/// What could be read of a file. `None` is a mistake that was reported, or an optional key that is absent.
#[derive(Default)]
pub(super) struct Draft<'c> {
    /// Where the first key stands: a place to point at for what is not there.
    pub(super) start: usize,
    pub(super) places: Places,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) strategies: Vec<ListedStrategy<'c>>,
    pub(super) strategies_whole: bool,
    pub(super) contenders: Option<Vec<usize>>,
    pub(super) locks: Option<usize>,
    pub(super) hold: Option<Distribution>,
    pub(super) think: Option<Distribution>,
    pub(super) read_ratio: Option<f64>,
    pub(super) clients: Vec<ClientDraft>,
    pub(super) depth: Option<u32>,
    pub(super) poll_interval: Option<Duration>,
    pub(super) load: Option<LoadWord>,
    pub(super) open: OpenKeys,
    pub(super) duration: Option<Duration>,
    pub(super) acquisitions: Option<u64>,
    pub(super) ramp_up: Option<Duration>,
    pub(super) warm_up: Option<Duration>,
    pub(super) warm_up_at_most: Option<Duration>,
    pub(super) repetitions: Option<u32>,
    pub(super) precision: Option<f64>,
    pub(super) repetitions_at_most: Option<u32>,
    pub(super) order: Option<Order>,
    pub(super) seed: Option<u64>,
    pub(super) session_timeout: Option<Duration>,
    pub(super) acquire_timeout: Option<Duration>,
    pub(super) give_up_after: Option<Duration>,
    pub(super) in_doubt: Option<InDoubt>,
    pub(super) time_scale: Option<f64>,
    pub(super) servers: Option<u64>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) connect: Option<String>,
    pub(super) compose: Option<PathBuf>,
    /// The faults whose kind could be read.
    pub(super) faults: Vec<FaultDraft<'c>>,
    pub(super) gates: Vec<Gate>,
    pub(super) has_host_commands: bool,
}

impl<'c> Draft<'c> {
    pub(super) fn read(
        root: &DeTable<'_>,
        catalog: &'c Catalog,
        traces: ReadTrace<'_>,
        sink: &Sink<'_>,
    ) -> Self {
        let start = root.keys().map(|key| key.span().start).min().unwrap_or(0);
        let has_host_commands = catalog.has_host_commands;
        let mut draft = Draft { start, has_host_commands, ..Draft::default() };
        let mut places = Places::new();
        let mut keys = Keys::new(root, Section::Top, sink, &mut places);
        draft.name = keys.read("name", values::name);
        draft.description = keys.read("description", values::text);
        let listed = keys.read("strategies", |value, _, sink| Some(strategies(value, &catalog.locks, sink)));
        (draft.strategies, draft.strategies_whole) = listed.unwrap_or_default();
        draft.contenders = keys.read("contenders", values::counts);
        draft.locks = keys.read("locks", values::count).and_then(|count| usize::try_from(count).ok());
        draft.hold = keys.read("hold", values::distribution);
        draft.think = keys.read("think", values::distribution);
        draft.read_ratio = keys.read("read_ratio", values::factor);
        draft.depth = keys.read("depth", values::count).and_then(|count| u32::try_from(count).ok());
        draft.poll_interval = keys.read(POLL_INTERVAL_PARAM, values::duration);
        draft.load = keys.read("load", values::word).map(load);
        draft.open = OpenKeys::read(&mut keys, traces);
        draft.duration = keys.read("duration", values::duration);
        draft.acquisitions = keys.read("acquisitions", values::count);
        draft.ramp_up = keys.read("ramp_up", values::duration);
        draft.warm_up = keys.read("warm_up", values::duration);
        draft.warm_up_at_most = keys.read("warm_up_at_most", values::duration);
        draft.repetitions =
            keys.read("repetitions", values::count).and_then(|count| u32::try_from(count).ok());
        draft.precision = keys.read("precision", values::percent);
        draft.repetitions_at_most =
            keys.read("repetitions_at_most", values::count).and_then(|count| u32::try_from(count).ok());
        draft.order = keys.read("order", values::word).map(order);
        draft.seed = keys.read("seed", values::count);
        draft.session_timeout = keys.read("session_timeout", values::duration);
        draft.acquire_timeout = keys.read("acquire_timeout", values::duration);
        draft.give_up_after = keys.read("give_up_after", values::duration);
        draft.in_doubt = keys.read("in_doubt", values::word).map(in_doubt);
        draft.time_scale = keys.read("time_scale", values::factor);
        let ensemble = keys.take(ENSEMBLE).map(|entry| entry.value);
        draft.clients = keys.take(CLIENT).map(|entry| clients(entry.value, sink)).unwrap_or_default();
        draft.faults =
            keys.take(FAULT).map(|entry| faults(entry.value, &catalog.faults, sink)).unwrap_or_default();
        draft.gates = keys
            .take(GATE)
            .map(|entry| draft.read_gates(entry.value, &catalog.figures, sink))
            .unwrap_or_default();
        keys.finish();
        draft.read_ensemble(ensemble, &mut places, sink);
        draft.places = places;
        if let Some(interval) = draft.poll_interval {
            apply_poll_interval(&mut draft.strategies, interval);
        }
        draft
    }

    fn read_gates(
        &self,
        value: &TomlValue<'_>,
        figures: &[&'static FigureCard],
        sink: &Sink<'_>,
    ) -> Vec<Gate> {
        let labels: Vec<String> = self.strategies.iter().map(|listed| listed.choice.label.clone()).collect();
        let contenders = self.contenders.as_deref().filter(|_| self.strategies_whole);
        let cells = contenders.map(|contenders| KnownCells { strategies: &labels, contenders });
        gates(value, Known { figures, cells }, sink)
    }

    fn read_ensemble(&mut self, value: Option<&TomlValue<'_>>, places: &mut Places, sink: &Sink<'_>) {
        let empty = DeTable::new();
        let entries = match value.map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Table(entries))) => entries,
            Some((value, _)) => {
                wrong_type(
                    value,
                    "a table",
                    "write `[ensemble]` and, under it, `servers = 3` or `connect = \"zk1:2181\"`",
                    sink,
                );
                return;
            }
            None => &empty,
        };
        let mut keys = Keys::new(entries, Section::Ensemble, sink, places);
        self.servers = keys.read("servers", values::one_of_counts);
        self.data_dir = keys.read("data_dir", values::path);
        self.compose = keys.read("compose", values::path);
        self.connect = keys.read("connect", values::connect);
        keys.finish();
    }

    /// A kind of clients, with what the top of the file says where it says nothing itself.
    fn client(&self, kind: &ClientDraft) -> Option<ClientKind> {
        Some(ClientKind {
            share: kind.share?,
            hold: kind.hold.clone().or_else(|| self.hold.clone())?,
            think: kind.think.clone().or_else(|| self.think.clone())?,
            read_ratio: kind.read_ratio.or(self.read_ratio)?,
        })
    }

    pub(super) fn complete(&self) -> Option<Scenario> {
        let (load, rate_of) = match self.load? {
            LoadWord::Closed => (Load::Closed, RateOf::All),
            LoadWord::Batch => (Load::Batch, RateOf::All),
            LoadWord::Open => self.open.complete().map(|(open, of)| (Load::Open(open), of))?,
        };
        let stop = match (&load, self.duration, self.acquisitions) {
            (Load::Batch, _, _) => Stop::Acquisitions(1),
            (Load::Closed | Load::Open(_), Some(duration), _) => Stop::After(duration),
            (Load::Open(_), None, _) => Stop::After(self.open.replayed()?),
            (Load::Closed, None, acquisitions) => Stop::Acquisitions(acquisitions?),
        };
        let ensemble = match (&self.connect, &self.compose) {
            (Some(connect), _) => EnsembleChoice::Connect(connect.clone()),
            (None, Some(file)) => EnsembleChoice::Compose(file.clone()),
            (None, None) => EnsembleChoice::Local {
                servers: usize::try_from(self.servers?).ok()?,
                data_dir: self.data_dir.clone(),
            },
        };
        Some(Scenario {
            name: self.name.clone()?,
            description: self.description.clone()?,
            ensemble,
            strategies: self.strategies.iter().map(|listed| listed.choice.clone()).collect(),
            contenders: self.contenders.clone()?,
            locks: self.locks?,
            hold: self.hold.clone()?,
            think: self.think.clone()?,
            read_ratio: self.read_ratio?,
            clients: self.clients.iter().map(|kind| self.client(kind)).collect::<Option<Vec<_>>>()?,
            depth: self.depth?,
            load,
            rate_of,
            stop,
            ramp_up: self.ramp_up?,
            warm_up: self.warm_up?,
            warm_up_at_most: self.warm_up_at_most(),
            repetitions: self.repetitions?,
            precision: match self.precision {
                Some(share) => Some(Precision { share, repetitions_at_most: self.repetitions_at_most? }),
                None => None,
            },
            order: self.order?,
            seed: self.seed?,
            session_timeout: self.session_timeout?,
            acquire_timeout: self.acquire_timeout,
            give_up_after: self.give_up_after?,
            in_doubt: self.in_doubt?,
            time_scale: self.time_scale?,
            faults: self.faults.iter().map(FaultDraft::choice).collect::<Option<Vec<_>>>()?,
            gates: self.gates.clone(),
        })
    }
}

/// The load by its word alone; what an open one is stands in keys of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadWord {
    Closed,
    Batch,
    Open,
}

fn load(word: &str) -> LoadWord {
    match word {
        "batch" => LoadWord::Batch,
        "open" => LoadWord::Open,
        _ => LoadWord::Closed,
    }
}

fn order(word: &str) -> Order {
    if word == "as-written" { Order::AsWritten } else { Order::Shuffled }
}

fn in_doubt(word: &str) -> InDoubt {
    if word == "keep-session" { InDoubt::KeepSession } else { InDoubt::EndSession }
}
