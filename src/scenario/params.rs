//! Parameters of strategies and faults, read by their descriptions.

use std::collections::BTreeMap;

use super::fields::{PARAM_DURATION, POLL_INTERVAL, POLL_INTERVAL_PARAM};
use super::read::{Sink, Value, expect_bool, expect_count, expect_duration, expect_word};
use crate::catalog::{Param, ParamKind, ParamValue};
use crate::units::parse_duration;

/// The parameters that a scenario has set, by name.
pub(super) type Given = BTreeMap<&'static str, ParamValue>;

/// The default of a parameter, as a value. `None` if the card's text does not fit its kind.
#[must_use]
pub fn default_value(param: &Param) -> Option<ParamValue> {
    match param.kind {
        ParamKind::Duration => parse_duration(param.default).ok().map(ParamValue::Duration),
        ParamKind::Bool => param.default.parse().ok().map(ParamValue::Bool),
        ParamKind::OneOf(_) | ParamKind::Choice(_) => {
            param.kind.words().contains(&param.default).then(|| ParamValue::Word(param.default.to_owned()))
        }
        ParamKind::Count(least, most) => {
            param.default.parse().ok().filter(|count| (least..=most).contains(count)).map(ParamValue::Count)
        }
    }
}

/// Reads a value of a parameter's kind.
pub(super) fn given_value(param: &Param, value: &Value<'_>, sink: &Sink<'_>) -> Option<ParamValue> {
    Some(match param.kind {
        ParamKind::Duration => {
            let bounds = if param.name == POLL_INTERVAL_PARAM { POLL_INTERVAL } else { PARAM_DURATION };
            ParamValue::Duration(expect_duration(value, &bounds, sink)?)
        }
        ParamKind::Bool => ParamValue::Bool(expect_bool(value, sink)?),
        ParamKind::OneOf(_) | ParamKind::Choice(_) => {
            ParamValue::Word(expect_word(value, &param.kind.words(), sink)?.to_owned())
        }
        ParamKind::Count(least, most) => ParamValue::Count(expect_count(value, &(least..=most), sink)?),
    })
}
