//! Kinds of clients: the `[[client]]` tables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::de::DeValue;

use super::distribution::Distribution;
use super::fields::{CLIENT, Section};
use super::keys::{Keys, Places};
use super::read::{ListOfTables, Sink, TomlValue, wrong_type};
use super::values;

/// Clients that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientKind {
    /// Their part of all contenders or, in an open load, of all arrivals; the shares of all kinds need not add up to 1.
    pub share: f64,
    /// Hold time.
    pub hold: Distribution,
    /// Think time.
    pub think: Distribution,
    /// Share of acquires that ask to read.
    pub read_ratio: f64,
}

/// A kind as far as it could be read; what it leaves out is said at the top of the file.
pub(super) struct ClientDraft {
    pub(super) share: Option<f64>,
    pub(super) hold: Option<Distribution>,
    pub(super) think: Option<Distribution>,
    pub(super) read_ratio: Option<f64>,
    pub(super) places: Places,
}

pub(super) fn clients(value: &TomlValue<'_>, sink: &Sink<'_>) -> Vec<ClientDraft> {
    let client = |item: &TomlValue<'_>| match item.get_ref() {
        DeValue::Table(entries) => {
            let mut places = Places::new();
            let mut keys = Keys::new(entries, Section::Client, sink, &mut places);
            let (share, hold) = (keys.read("share", values::factor), keys.read("hold", values::distribution));
            let think = keys.read("think", values::distribution);
            let read_ratio = keys.read("read_ratio", values::factor);
            keys.finish();
            Some(ClientDraft { share, hold, think, read_ratio, places })
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

impl ClientKind {
    pub(super) fn scaled(&self, factor: f64) -> Self {
        let Self { share, read_ratio, .. } = *self;
        Self { share, hold: self.hold.scaled(factor), think: self.think.scaled(factor), read_ratio }
    }
}
