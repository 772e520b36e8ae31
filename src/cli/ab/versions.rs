//! Drivers that the sides have of their own: what they say that they are, and whether what they declare can be compared.

use super::side::Side;
use crate::answer::ab::{SideDriver, Turn};
use crate::cli::drivers::command_of;
use crate::lock::{DrivenLock, Program};
use crate::scenario::StrategyChoice;
use crate::words::error::Error;
use crate::words::units::listed;
use crate::world::driver::protocol::WantedMode;

pub fn recorded(side: &Side) -> Vec<SideDriver> {
    let record = |program: &Program| SideDriver {
        name: program.command.name.clone(),
        command: command_of(&program.command),
        driver: program.ready.driver.clone(),
        inside: program.ready.inside.clone(),
    };
    side.drivers.iter().flat_map(|drivers| &drivers.own).map(record).collect()
}

/// A driver's lock that both sides use, of which at least one has a driver of its own.
struct ComparedLock<'a> {
    choices: [&'a StrategyChoice; 2],
    locks: [&'a DrivenLock; 2],
}

/// What is to be known of the sides' drivers before they are compared.
///
/// # Errors
/// When the scenario needs of a lock what only one side's can do.
pub fn compared(a: &Side, b: &Side) -> Result<Vec<String>, Error> {
    let mut notes = same(a, b);
    for compared in locks(a, b) {
        let name = &compared.choices[0].name;
        let reads = compared.locks.map(|lock| lock.abilities.modes.contains(&WantedMode::Read));
        if a.scenario().read_ratio > 0.0 && reads[0] != reads[1] {
            let lacks = if reads[0] { Turn::B } else { Turn::A };
            return Err(Error::usage(format!(
                "the scenario has `read_ratio`, and `{name}` of {} can't be taken for reading, unlike the other side's: leave \
                 `read_ratio` out, or `{name}`",
                lacks.title()
            )));
        }
        let differences = differences(&compared);
        if !differences.is_empty() {
            notes.push(format!(
                "note: `{name}` is not declared alike on both sides: {}",
                listed(&differences)
            ));
        }
    }
    Ok(notes)
}

/// Drivers that are the same on both sides as far as they say.
fn same(a: &Side, b: &Side) -> Vec<String> {
    let (Some(of_a), Some(of_b)) = (&a.drivers, &b.drivers) else { return Vec::new() };
    let twin = |one: &Program| {
        let other = of_b.own.iter().find(|other| other.command.name == one.command.name)?;
        (other.said() == one.said()).then_some(())?;
        let (name, said) = (&one.command.name, one.said());
        Some(match one.command == other.command {
            true => {
                format!("note: A and B have the same driver `{name}` ({said}), started by the same command")
            }
            false => format!(
                "warning: the drivers `{name}` of A and B say the same of themselves ({said}): if they are to be two \
                 versions, one of the commands does not start the one that is meant"
            ),
        })
    };
    of_a.own.iter().filter_map(twin).collect()
}

fn locks<'a>(a: &'a Side, b: &'a Side) -> impl Iterator<Item = ComparedLock<'a>> {
    let has_own = a.drivers.is_some() || b.drivers.is_some();
    a.scenario().strategies.iter().filter(move |_| has_own).filter_map(|choice| {
        let other = b.scenario().strategies.iter().find(|other| other.label == choice.label)?;
        let locks = [a.locks().find(&choice.name)?, b.locks().find(&other.name)?];
        Some(ComparedLock { choices: [choice, other], locks })
    })
}

/// What may make a difference that is not the library's speed.
fn differences(ComparedLock { choices: [a, b], locks }: &ComparedLock<'_>) -> Vec<String> {
    let declared = |lock: &DrivenLock| {
        let abilities = lock.abilities;
        let word = |of: &dyn std::fmt::Debug| format!("{of:?}").to_lowercase();
        [
            ("timeout", word(&abilities.timeout)),
            ("cancel", word(&abilities.cancel)),
            ("token", word(&abilities.token)),
            ("order", word(&abilities.order)),
            ("reentrant", word(&abilities.reentrant)),
        ]
    };
    let [of_a, of_b] = locks.map(declared);
    let abilities = of_a.into_iter().zip(of_b).filter(|(a, b)| a != b);
    let abilities = abilities.map(|((what, a), (_, b))| format!("`{what}` is {a} on A and {b} on B"));
    let value = |of: &StrategyChoice, name: &str| {
        of.params.get(name).map_or_else(|| "not there".to_owned(), ToString::to_string)
    };
    let names: std::collections::BTreeSet<&String> = a.params.keys().chain(b.params.keys()).collect();
    let params = names.into_iter().filter(|name| a.params.get(*name) != b.params.get(*name));
    let params = params
        .map(|name| format!("`{name}` is {} on A and {} on B by default", value(a, name), value(b, name)));
    abilities.chain(params).collect()
}
