//! What could be read of a scenario file, key by key, before it is known whether that makes a scenario.
//!
//! Lists are read against what there is to be named ([`Catalog`]). Values only: what does not go together is the business of
//! `rules` and `fault_rules`.

use std::ops::Range;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::arrivals::{Arrivals, Open, Replay};
use super::diagnostic::{did_you_mean, listed};
use super::fields::{CLIENT, ENSEMBLE, FAULT, GATE, LoadWord, Section};
use super::gate::{Condition, Gate, Known, KnownCells, parse};
use super::keys::{ClientKeys, EnsembleKeys, FaultKeys, GateKeys, Keys, Places, TopKeys};
use super::model::{ClientKind, EnsembleChoice, Load, Precision, RateOf, Scenario, Stop};
use super::read::{ListOfTables, Sink, TomlValue, expect_text, shortened, wrong_type};
use super::strategies::{ListedStrategy, apply_poll_interval, strategies};
use super::values::{Comes, Given, ReadTrace, comes, given_value, in_force};
use zklockbench_core::catalog::fault::{FaultCard, FaultChoice, Start, Target, Targets};
use zklockbench_core::catalog::{LockCard, Param, Params};
use zklockbench_core::measure::FigureCard;

#[derive(Debug, Clone)]
pub struct Catalog {
    pub locks: Vec<LockCard>,
    pub faults: Vec<FaultCard>,
    /// What gates can be about, percentiles apart.
    pub figures: Vec<&'static FigureCard>,
    /// Whether the user has given commands to break the servers of an existing ensemble.
    pub has_host_commands: bool,
}

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
            evidence: said.evidence?,
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
            return wrong_type(value, "a table", help, sink).unwrap_or_default();
        }
        None => &empty,
    };
    let mut keys = Keys::new(entries, Section::Ensemble, sink);
    (EnsembleKeys::read(&mut keys), keys.finish())
}

/// A kind as far as it could be read; what it leaves out is said at the top of the file.
pub(super) struct ClientDraft {
    pub(super) said: ClientKeys,
    pub(super) places: Places,
}

fn clients(value: &TomlValue<'_>, sink: &Sink<'_>) -> Vec<ClientDraft> {
    let client = |item: &TomlValue<'_>| match item.get_ref() {
        DeValue::Table(entries) => {
            let mut keys = Keys::new(entries, Section::Client, sink);
            Some(ClientDraft { said: ClientKeys::read(&mut keys), places: keys.finish() })
        }
        _ => wrong_type(item, "a kind of clients", "write { share = 0.2, hold = \"1s\" }", sink),
    };
    let list = ListOfTables {
        key: CLIENT,
        what: "a list of kinds of clients",
        help: "write `[[client]]` and, under it, share = 0.2 and hold = \"1s\"; how many clients there are is `contenders`",
    };
    list.read(value, sink, client)
}

/// A fault as far as it could be read.
pub(super) struct FaultDraft<'c> {
    pub(super) card: &'c FaultCard,
    /// Where its kind stands: a place to point at for what is not there.
    pub(super) span: Range<usize>,
    pub(super) places: Places,
    pub(super) said: FaultKeys,
    /// Its target, where that is a word.
    word: Option<&'static str>,
    given: Given,
}

impl FaultDraft<'_> {
    pub(super) fn target(&self) -> Target {
        match (self.card.targets, self.said.server, self.said.contender) {
            (Targets::Fixed, _, _) => Target::Fixed,
            (Targets::Servers, Some(number), _) => Target::Server(number),
            (Targets::Contenders, _, Some(number)) => Target::Contender(number),
            _ => Target::Word(self.word.unwrap_or(self.card.default_target)),
        }
    }

    fn choice(&self) -> Option<FaultChoice> {
        let start = match self.said.at {
            Some(at) => Start::At(at),
            None => Start::AfterAcquisitions(self.said.after_acquisitions?),
        };
        Some(FaultChoice {
            kind: self.card.name.to_owned(),
            target: self.target(),
            start,
            duration: self.said.duration,
            times: self.said.times?,
            every: self.said.every.unwrap_or_default(),
            jitter: self.said.jitter?,
            params: self.params(),
            label: self.label(),
        })
    }

    fn params(&self) -> Params {
        let value = |param: &Param| Some((param.name.to_owned(), in_force(param, &self.given)?));
        self.card.params.iter().filter_map(value).collect()
    }

    /// Kind, target and what was set, in the order of the card.
    fn label(&self) -> String {
        let target = self.target().to_string();
        let set =
            self.card.params.iter().filter_map(|param| {
                self.given.get(param.name).map(|value| format!("{}={value}", param.name))
            });
        let parts = [self.card.name.to_owned(), target].into_iter().chain(set);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

fn faults<'c>(value: &TomlValue<'_>, cards: &'c [FaultCard], sink: &Sink<'_>) -> Vec<FaultDraft<'c>> {
    let list = ListOfTables {
        key: FAULT,
        what: "a list of faults",
        help: "write `[[fault]]` and, under it, kind = \"kill\"",
    };
    list.read(value, sink, |item| fault(item, cards, sink))
}

fn fault<'c>(item: &TomlValue<'_>, cards: &'c [FaultCard], sink: &Sink<'_>) -> Option<FaultDraft<'c>> {
    let DeValue::Table(entries) = item.get_ref() else {
        let help = "write { kind = \"kill\", at = \"5s\", duration = \"2s\" }";
        return wrong_type(item, "a fault", help, sink);
    };
    let mut keys = Keys::new(entries, Section::Fault, sink);
    let found = kind(&mut keys, item, cards, sink);
    let card = found.as_ref().map(|(card, _)| *card);
    keys.know(card.iter().flat_map(|card| card.params).map(|param| param.name));
    let said = FaultKeys::read(&mut keys);
    let word = keys.read("target", |value, _, sink| word(card?, value, sink));
    // Without its kind it can't be told which other keys it takes.
    let (card, span) = found?;
    let given = given(&mut keys, card, sink);
    let places = keys.finish_beside(|key| owners(key, cards));
    Some(FaultDraft { card, span, places, said, word, given })
}

fn kind<'c>(
    keys: &mut Keys<'_, '_, '_>,
    item: &TomlValue<'_>,
    cards: &'c [FaultCard],
    sink: &Sink<'_>,
) -> Option<(&'c FaultCard, Range<usize>)> {
    let names = || cards.iter().map(|card| card.name);
    let all = format!("the faults are {}", listed(names()));
    let Some(entry) = keys.take("kind") else {
        sink.missing(item.span(), "the fault has no `kind`", all);
        return None;
    };
    let name = expect_text(entry.value, "a fault's name", "write it in quotes", sink)?;
    let found = cards.iter().find(|card| card.name == name);
    if found.is_none() {
        let message = format!("unknown fault `{}`", shortened(name));
        sink.error(entry.value.span(), message, did_you_mean(name, names(), &all));
    }
    found.map(|card| (card, entry.value.span()))
}

/// One of the words for the kind's targets. Where the kind has none, that is said by the rules.
fn word(card: &FaultCard, value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<&'static str> {
    let words = card.words();
    let number = match card.targets {
        Targets::Servers => "server = 1",
        Targets::Contenders => "contender = 0",
        Targets::Fixed => return None,
    };
    let all = listed(words.iter().copied());
    let help =
        format!("write one of these words in quotes, or name one of the {} by {number}", card.targets.noun());
    let text = expect_text(value, &format!("one of {all}"), &help, sink)?;
    let found = words.iter().copied().find(|word| *word == text);
    if found.is_none() {
        let otherwise = format!("`{}` hits {}: {help}", card.name, card.targets.noun());
        let message = format!("`{}` is not one of {all}", shortened(text));
        sink.error(value.span(), message, did_you_mean(text, words, &otherwise));
    }
    found
}

fn given(keys: &mut Keys<'_, '_, '_>, card: &FaultCard, sink: &Sink<'_>) -> Given {
    let set = |param: &Param| {
        let entry = keys.take(param.name)?;
        Some((param.name, given_value(param, entry.value, sink)?))
    };
    card.params.iter().filter_map(set).collect()
}

fn owners(key: &str, cards: &[FaultCard]) -> Option<String> {
    let takes = |card: &&FaultCard| card.params.iter().any(|param| param.name == key);
    let owners: Vec<_> = cards.iter().filter(takes).map(|card| card.name).collect();
    (!owners.is_empty()).then(|| format!("it is a parameter of {}", listed(owners)))
}

/// Reads the list: every gate without mistakes. What a gate may name is not checked where the
/// scenario's own strategies or contenders could not be read.
fn gates(value: &TomlValue<'_>, known: Known<'_>, sink: &Sink<'_>) -> Vec<Gate> {
    const WHAT: &str = "a list of gates";
    if let DeValue::String(_) = value.get_ref() {
        let help = format!("put it in brackets: gate = [{}]", sink.quoted(&value.span()));
        wrong_type::<()>(value, WHAT, &help, sink);
        return gate(value, known, sink).into_iter().collect();
    }
    let help = "write `[[gate]]` and, under it, require = \"wait.p99 < 50ms\"";
    ListOfTables { key: GATE, what: WHAT, help }.read(value, sink, |item| gate(item, known, sink))
}

/// A gate is a table, or its condition alone.
fn gate(item: &TomlValue<'_>, known: Known<'_>, sink: &Sink<'_>) -> Option<Gate> {
    let entries = match item.get_ref() {
        DeValue::Table(entries) => entries,
        DeValue::String(_) => return Some(Gate { name: None, condition: condition(item, known, sink)? }),
        _ => {
            let help = "write { require = \"wait.p99 < 50ms\" }";
            return wrong_type(item, "a gate", help, sink);
        }
    };
    let mut keys = Keys::new(entries, Section::Gate, sink);
    let condition = keys.read("require", |value, _, sink| condition(value, known, sink));
    let GateKeys { name } = GateKeys::read(&mut keys);
    keys.finish();
    Some(Gate { name, condition: condition? })
}

/// Points at the very part of the text that is wrong, where the file has the text as it is.
fn condition(value: &TomlValue<'_>, known: Known<'_>, sink: &Sink<'_>) -> Option<Condition> {
    let text = expect_text(value, "a condition", "write it in quotes, e.g. \"wait.p99 < 50ms\"", sink)?;
    let mistake = match parse(text, known) {
        Ok(condition) => return Some(condition),
        Err(mistake) => mistake,
    };
    match sink.within(&value.span(), text, &mistake.span) {
        Some(span) => sink.error(span, mistake.message, mistake.help),
        None => {
            let message = format!("column {} of the gate: {}", mistake.column, mistake.message);
            sink.error(value.span(), message, mistake.help);
        }
    }
    None
}
