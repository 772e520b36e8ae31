//! What could be read of a scenario file, key by key, before it is known whether that makes a scenario.

use std::ops::Range;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::arrivals::{Arrivals, Open, Replay};
use super::catalog::Catalog;
use super::faults::{FaultDraft, faults};
use super::fields::{CLIENT, ENSEMBLE, FAULT, GATE, LoadWord, Section};
use super::gate::{Gate, Known, KnownCells};
use super::gates::gates;
use super::keys::{ClientKeys, EnsembleKeys, Keys, Places, TopKeys};
use super::model::{ClientKind, EnsembleChoice, Load, Precision, RateOf, Scenario, Stop};
use super::open::{Comes, ReadTrace, comes};
use super::read::{ListOfTables, Sink, TomlValue, wrong_type};
use super::strategies::{ListedStrategy, apply_poll_interval, strategies};

/// A kind as far as it could be read; what it leaves out is said at the top of the file.
pub(super) struct ClientDraft {
    pub(super) said: ClientKeys,
    pub(super) places: Places,
}

/// What could be read of a file.
pub(super) struct Draft<'c> {
    pub(super) catalog: &'c Catalog,
    /// Where the first key stands: a place to point at for what is not there.
    start: usize,
    /// Of the keys at the top and of those of the ensemble.
    pub(super) places: Places,
    pub(super) said: TopKeys,
    pub(super) ensemble: EnsembleKeys,
    pub(super) strategies: Vec<ListedStrategy<'c>>,
    pub(super) strategies_whole: bool,
    pub(super) arrivals: Option<Comes>,
    pub(super) clients: Vec<ClientDraft>,
    /// The faults whose kind could be read.
    pub(super) faults: Vec<FaultDraft<'c>>,
    gates: Vec<Gate>,
}

impl<'c> Draft<'c> {
    pub(super) fn read(
        root: &DeTable<'_>,
        catalog: &'c Catalog,
        traces: ReadTrace<'_>,
        sink: &Sink<'_>,
    ) -> Self {
        let start = root.keys().map(|key| key.span().start).min().unwrap_or(0);
        let mut keys = Keys::new(root, Section::Top, sink);
        let said = TopKeys::read(&mut keys);
        let listed = keys.read("strategies", |value, _, sink| Some(strategies(value, &catalog.locks, sink)));
        let (mut strategies, strategies_whole) = listed.unwrap_or_default();
        let arrivals = keys.read("arrivals", |value, _, sink| comes(value, traces, sink));
        let ensemble = keys.take(ENSEMBLE).map(|entry| entry.value);
        let clients = keys.take(CLIENT).map(|entry| clients(entry.value, sink)).unwrap_or_default();
        let faults = keys.take(FAULT).map(|entry| faults(entry.value, &catalog.faults, sink));
        let labels: Vec<String> = strategies.iter().map(|listed| listed.choice.label.clone()).collect();
        let contenders = said.contenders.as_deref().filter(|_| strategies_whole);
        let cells = contenders.map(|contenders| KnownCells { strategies: &labels, contenders });
        let known = Known { figures: &catalog.figures, cells };
        let gates = keys.take(GATE).map(|entry| gates(entry.value, known, sink)).unwrap_or_default();
        let places = keys.finish();
        let (ensemble, of_ensemble) = read_ensemble(ensemble, sink);
        if let Some(interval) = said.poll_interval {
            apply_poll_interval(&mut strategies, interval);
        }
        Self {
            catalog,
            start,
            places: places.and(of_ensemble),
            said,
            ensemble,
            strategies,
            strategies_whole,
            arrivals,
            clients,
            faults: faults.unwrap_or_default(),
            gates,
        }
    }

    /// Where it is said what the load is, or where that would stand.
    pub(super) fn load_key(&self) -> Range<usize> {
        self.places.key("load").unwrap_or(self.start..self.start)
    }

    pub(super) fn fewest_contenders(&self) -> Option<usize> {
        self.said.contenders.iter().flatten().min().copied()
    }

    pub(super) fn most_contenders(&self) -> Option<usize> {
        self.said.contenders.iter().flatten().max().copied()
    }

    /// What an open load replays, if it does.
    pub(super) fn replay(&self) -> Option<&Replay> {
        match &self.arrivals.as_ref().filter(|_| self.said.load == Some(LoadWord::Open))?.arrivals {
            Arrivals::Replay(replay) => Some(replay),
            _ => None,
        }
    }

    /// How long the warm-up may take: what was said, or what that is by default.
    pub(super) fn warm_up_at_most(&self) -> Duration {
        let warm_up = self.said.warm_up.unwrap_or_default();
        let changes = self.said.load == Some(LoadWord::Open)
            && self.arrivals.as_ref().is_some_and(|comes| !comes.arrivals.is_stationary());
        self.said.warm_up_at_most.unwrap_or(if changes { warm_up } else { warm_up.saturating_mul(4) })
    }

    /// A kind of clients, with what the top of the file says where it says nothing itself.
    fn client(&self, kind: &ClientDraft) -> Option<ClientKind> {
        Some(ClientKind {
            share: kind.said.share?,
            hold: kind.said.hold.clone().or_else(|| self.said.hold.clone())?,
            think: kind.said.think.clone().or_else(|| self.said.think.clone())?,
            read_ratio: kind.said.read_ratio.or(self.said.read_ratio)?,
        })
    }

    fn open(&self) -> Option<Open> {
        Some(Open {
            arrivals: self.arrivals.as_ref()?.at(self.said.rate.or(self.said.rate_each))?,
            popularity: self.said.popularity?,
            late: self.said.late?,
            backlog_at_most: self.said.backlog_at_most?,
        })
    }

    pub(super) fn complete(&self) -> Option<Scenario> {
        let said = &self.said;
        let load = match said.load? {
            LoadWord::Closed => Load::Closed,
            LoadWord::Batch => Load::Batch,
            LoadWord::Open => Load::Open(self.open()?),
        };
        let rate_of =
            if load.open().is_some() && said.rate_each.is_some() { RateOf::Each } else { RateOf::All };
        let stop = match (&load, said.duration) {
            (Load::Batch, _) => Stop::Acquisitions(1),
            (Load::Closed | Load::Open(_), Some(duration)) => Stop::After(duration),
            (Load::Open(_), None) => Stop::After(self.replay()?.lasts()),
            (Load::Closed, None) => Stop::Acquisitions(said.acquisitions?),
        };
        let ensemble = match (&self.ensemble.connect, &self.ensemble.compose) {
            (Some(connect), _) => EnsembleChoice::Connect(connect.clone()),
            (None, Some(file)) => EnsembleChoice::Compose(file.clone()),
            (None, None) => EnsembleChoice::Local {
                servers: self.ensemble.servers?,
                data_dir: self.ensemble.data_dir.clone(),
            },
        };
        Some(Scenario {
            name: said.name.clone()?,
            description: said.description.clone()?,
            ensemble,
            strategies: self.strategies.iter().map(|listed| listed.choice.clone()).collect(),
            contenders: said.contenders.clone()?,
            locks: said.locks?,
            hold: said.hold.clone()?,
            think: said.think.clone()?,
            read_ratio: said.read_ratio?,
            clients: self.clients.iter().map(|kind| self.client(kind)).collect::<Option<_>>()?,
            depth: said.depth?,
            load,
            rate_of,
            stop,
            ramp_up: said.ramp_up?,
            warm_up: said.warm_up?,
            warm_up_at_most: self.warm_up_at_most(),
            repetitions: said.repetitions?,
            precision: match said.precision {
                Some(share) => Some(Precision { share, repetitions_at_most: said.repetitions_at_most? }),
                None => None,
            },
            order: said.order?,
            seed: said.seed?,
            session_timeout: said.session_timeout?,
            acquire_timeout: said.acquire_timeout,
            give_up_after: said.give_up_after?,
            in_doubt: said.in_doubt?,
            time_scale: said.time_scale?,
            faults: self.faults.iter().map(FaultDraft::choice).collect::<Option<_>>()?,
            gates: self.gates.clone(),
        })
    }
}

fn read_ensemble(value: Option<&TomlValue<'_>>, sink: &Sink<'_>) -> (EnsembleKeys, Places) {
    let empty = DeTable::new();
    let entries = match value.map(|value| (value, value.get_ref())) {
        Some((_, DeValue::Table(entries))) => entries,
        Some((value, _)) => {
            let help = "write `[ensemble]` and, under it, `servers = 3` or `connect = \"zk1:2181\"`";
            wrong_type(value, "a table", help, sink);
            return (EnsembleKeys::default(), Places::default());
        }
        None => &empty,
    };
    let mut keys = Keys::new(entries, Section::Ensemble, sink);
    (EnsembleKeys::read(&mut keys), keys.finish())
}

fn clients(value: &TomlValue<'_>, sink: &Sink<'_>) -> Vec<ClientDraft> {
    let client = |item: &TomlValue<'_>| match item.get_ref() {
        DeValue::Table(entries) => {
            let mut keys = Keys::new(entries, Section::Client, sink);
            Some(ClientDraft { said: ClientKeys::read(&mut keys), places: keys.finish() })
        }
        _ => {
            wrong_type(item, "a kind of clients", "write { share = 0.2, hold = \"1s\" }", sink);
            None
        }
    };
    let list = ListOfTables {
        key: CLIENT,
        what: "a list of kinds of clients",
        help: "write `[[client]]` and, under it, share = 0.2 and hold = \"1s\"; how many clients there are is `contenders`",
    };
    list.read(value, sink, client)
}
