//! Locks of drivers: external programs controlled over the protocol in `docs/testing-your-client.md`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{AcquireError, Acquired, Entry, Held, LockConfig, Patience, QueueNode, Strategy, count_of};
use crate::driver::protocol::{Abilities, How, Order, Parameter, Ready, TokenKind};
use crate::driver::{DriverCommand, Granted, Link, Processes, Wanted};
use zklockbench_core::catalog::{Guarantees, Holders, LockCard, Mode, Param, ParamKind, ParamValue, Params};
use zklockbench_core::clock;
use zklockbench_core::units::parse_duration;
use zklockbench_zk::{Failure, Session, sequence_of};

/// Maximum value of integer parameters: larger integers are not exact in all JSON parsers.
const MOST: u64 = 1 << 53;
const LEASES_MOST: u64 = 1_000;
/// Rule for names of locks and parameters.
const WORDS: &str = "use letters, digits, `-`, `_` and `.`";
/// Keys of a scenario's strategy that are not parameters of its lock.
const KEYS: [&str; 4] = ["driver", "lock", "name", "processes"];
/// Shortest timeout of a wait; a timeout of 0 means a try.
const SHORTEST: Duration = Duration::from_millis(1);
/// Name of the parameter that sets the number of leases per acquire, as in the suite's own semaphores.
pub const PERMITS: &str = "permits";

#[derive(Debug, Clone)]
pub struct Program {
    pub command: DriverCommand,
    pub ready: Ready,
}

impl Program {
    /// Describes the driver and its libraries, with their versions.
    pub fn said(&self) -> String {
        let inside = self.ready.inside.iter().map(|(name, version)| format!("{name} {version}"));
        let inside: Vec<String> = inside.collect();
        let driver = &self.ready.driver;
        if inside.is_empty() { driver.clone() } else { format!("{driver}: {}", inside.join(", ")) }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct DrivenLock {
    pub program: &'static Program,
    /// Name of the lock within the driver.
    pub name: &'static str,
    pub abilities: &'static Abilities,
}

impl DrivenLock {
    /// Explains why the driver cannot be used with TLS or SASL; `None` if it can. `name` is the lock's name
    /// on its card.
    pub fn unfit_for(&self, name: &str, wants_tls: bool, wants_sasl: bool) -> Option<String> {
        let ready = &self.program.ready;
        let (what, without) = match () {
            () if wants_tls && !ready.tls => ("encrypt connections", "TLS"),
            () if wants_sasl && !ready.sasl => ("authenticate with SASL", "--sasl"),
            () => return None,
        };
        Some(format!("the driver of `{name}` cannot {what}: remove {without} or exclude this lock"))
    }

    /// Returns the driver settings for a trial with this many processes.
    pub fn wanted(&self, params: &Params, processes: usize) -> Wanted {
        let value = |value: &ParamValue| match value {
            ParamValue::Duration(time) => clock::millis(*time).into(),
            ParamValue::Bool(is) => (*is).into(),
            ParamValue::Word(word) => word.as_str().into(),
            ParamValue::Count(count) => (*count).into(),
        };
        Wanted {
            command: self.program.command.clone(),
            lock: self.name.to_owned(),
            abilities: self.abilities.clone(),
            parameters: params.iter().map(|(name, given)| (name.clone(), value(given))).collect(),
            leases: self.abilities.leases.as_ref().map(|_| count_of(params, PERMITS, 1)),
            processes,
        }
    }
}

/// Returns the entries of a driver's locks, leaked to be `'static` like the suite's own entries.
pub(super) fn locks_of(program: Program) -> Result<Vec<(Entry, DrivenLock)>, String> {
    let program: &'static Program = Box::leak(Box::new(program));
    if program.ready.contenders == 0 {
        return Err(format!("driver `{}`: `contenders` is 0", program.command.name));
    }
    let locks = program.ready.locks.iter();
    locks.map(|(name, abilities)| lock(program, name, abilities)).collect()
}

fn lock(
    program: &'static Program,
    name: &'static str,
    abilities: &'static Abilities,
) -> Result<(Entry, DrivenLock), String> {
    let driver = &program.command.name;
    if !is_word(name) {
        return Err(format!("driver `{driver}`: `{name}` is not a valid lock name; {WORDS}"));
    }
    if !abilities.modes.contains(&Mode::Write) {
        return Err(format!("driver `{driver}`: `{name}` declares no mode `write`"));
    }
    let params = abilities.parameters.iter().map(|(name, parameter)| {
        param(name, parameter).map_err(|why| format!("driver `{driver}`: parameter `{name}`: {why}"))
    });
    let mut params: Vec<Param> = params.collect::<Result<_, String>>()?;
    let leases = abilities.leases.as_deref();
    if let Some(leases) = leases.filter(|leases| {
        !params.iter().any(|param| param.name == *leases && matches!(param.kind, ParamKind::Count(..)))
    }) {
        return Err(format!(
            "driver `{driver}`: `leases` of `{name}` is `{leases}`, which is not one of its numeric \
             parameters"
        ));
    }
    for param in &mut params {
        // A semaphore has at least one lease, and an acquire takes at most all of them.
        match (leases, &param.kind) {
            (Some(leases), ParamKind::Count(..)) if param.name == leases => {
                param.kind = ParamKind::Count(1, LEASES_MOST);
            }
            (Some(leases), ParamKind::Count(..)) if param.name == PERMITS => {
                param.kind = ParamKind::CountWithin(1, LEASES_MOST, leases);
            }
            _ => {}
        }
    }
    let holders = match leases {
        Some(leases) => Holders::Leases(leases),
        None if abilities.modes.contains(&Mode::Read) => Holders::ReadersOrOneWriter,
        None => Holders::One,
    };
    let summary = match abilities.summary.as_str() {
        "" => format!("`{name}` of the driver `{driver}`"),
        summary => summary.to_owned(),
    };
    let card = LockCard {
        name: leaked(format!("{driver}:{name}")),
        aliases: &[],
        summary: leaked(summary),
        source: leaked(source(program)),
        details: leaked(details(abilities)),
        guarantees: Guarantees {
            fifo: abilities.order == Order::Fifo,
            reentrant: abilities.reentrant,
            holders,
            ..Guarantees::QUEUE
        },
        after: &[],
        params: Box::leak(params.into_boxed_slice()),
        system: &program.ready.system,
        batch_cost: None,
    };
    Ok((Entry { card, build }, DrivenLock { program, name, abilities }))
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn source(program: &Program) -> String {
    format!("driver `{}` ({})", program.command.name, program.said())
}

fn details(abilities: &Abilities) -> String {
    let how = |how: How| match how {
        How::Native => "by the library",
        How::Emulated => "by the driver",
        How::None => "not supported",
    };
    let token = match abilities.token {
        TokenKind::Czxid => {
            "The driver reports the transaction that created its node, so the servers' logs \
            are checked, too."
        }
        TokenKind::Other => "The driver reports a fencing token, but not its node.",
        TokenKind::None => "The driver reports no fencing token.",
    };
    format!(
        "An external program acquires and releases the lock. Its requests are counted on the wire.\n\
         Timeouts: {}. Cancellation: {}.\n{token}",
        how(abilities.timeout),
        how(abilities.cancel)
    )
}

fn param(name: &'static str, parameter: &'static Parameter) -> Result<Param, String> {
    use serde_json::Value;
    if !is_word(name) {
        return Err(format!("not a valid name; {WORDS}"));
    }
    if KEYS.contains(&name) {
        return Err("scenarios use this key themselves; rename the parameter".to_owned());
    }
    let (kind, default) = match &parameter.default {
        Value::Bool(is) => (ParamKind::Bool, is.to_string()),
        Value::Number(number) => match number.as_u64() {
            Some(count) => (ParamKind::Count(0, MOST), count.to_string()),
            None => return Err(format!("{number} is not a whole number of at least 0")),
        },
        Value::String(text) if parameter.one_of.is_empty() && parse_duration(text).is_ok() => {
            (ParamKind::Duration, text.clone())
        }
        Value::String(word) if parameter.one_of.contains(word) => {
            let words: Vec<&'static str> = parameter.one_of.iter().map(String::as_str).collect();
            (ParamKind::OneOf(Box::leak(words.into_boxed_slice())), word.clone())
        }
        Value::String(word) => return Err(format!("`{word}` is neither a time nor listed in `one_of`")),
        other => return Err(format!("{other} is not a number, text, true or false")),
    };
    Ok(Param { name, kind, default: leaked(default), doc: &parameter.doc })
}

fn build(config: &LockConfig) -> Box<dyn Strategy> {
    Box::new(Driven {
        drivers: config.drivers.clone(),
        contender: config.contender,
        path: config.path.clone(),
    })
}

struct Driven {
    drivers: Option<Arc<Processes>>,
    contender: usize,
    path: String,
}

impl Driven {
    fn link(&self) -> Result<Arc<Link>, Failure> {
        let link = self.drivers.as_ref().and_then(|drivers| drivers.link(self.contender));
        link.ok_or_else(|| Failure::DriverEnded("the contender has no driver".into()))
    }

    fn note(&self, doing: &str, failure: &Failure) {
        if let Some(drivers) = &self.drivers {
            drivers.note(doing, failure);
        }
    }

    /// Returns the hold for a grant, without a node if the driver's report of the node is incomplete.
    fn held(&self, link: &Link, granted: Granted) -> Held {
        let Granted { done, told } = granted;
        let node = || {
            let path = done.node_of(&self.path).filter(|_| link.abilities().token == TokenKind::Czxid)?;
            let czxid = done.token.as_ref()?.number()?;
            Some(QueueNode { sequence: sequence_of(&path)?, path, czxid })
        };
        Held { told, ..Held::of(node()) }
    }
}

#[async_trait(?Send)]
impl Strategy for Driven {
    async fn acquire(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Acquired {
        let link = self.link()?;
        // The client may have opened a new session, which would then be granted the lock.
        if session.is_over() {
            return Err(Failure::SessionExpired.into());
        }
        let mode = if link.abilities().modes.contains(&mode) { mode } else { Mode::Write };
        let left = |deadline: clock::Stamp| match patience.tries_once {
            true => Duration::ZERO,
            // Rounded to zero milliseconds, a short timeout would become a try.
            false => Duration::from_micros(deadline.saturating_sub(patience.clock.now())).max(SHORTEST),
        };
        session.is_passed_by();
        // The driver enforces the timeout, and answers every acquire, even a cancelled one.
        let cancel = CancellationToken::new();
        let shown = Patience { deadline: None, tries_once: false, cancel, ..patience.clone() };
        let timeout = patience.deadline.map(left);
        let acquired = link.acquire(&self.path, mode, timeout, patience.cancel.cancelled());
        let acquired = shown.wait(acquired).await?;
        if let Err(AcquireError::Failed(failure)) = &acquired {
            self.note("acquire", failure);
        }
        acquired.map(|granted| self.held(&link, granted))
    }

    async fn release(&mut self, _: &Session, _: Held) -> Result<(), Failure> {
        let released = self.link()?.release(&self.path).await;
        released.inspect_err(|failure| self.note("release", failure))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn locks(ready: serde_json::Value) -> Result<Vec<(Entry, DrivenLock)>, String> {
        let command = DriverCommand { name: "my".into(), program: "x".into(), arguments: Vec::new() };
        locks_of(Program { command, ready: serde_json::from_value(ready).unwrap() })
    }

    fn with_parameters(parameters: &serde_json::Value) -> Result<Vec<(Entry, DrivenLock)>, String> {
        let lock = json!({ "timeout": "native", "cancel": "none", "order": "fifo", "modes": ["read", "write"],
                           "parameters": parameters });
        locks(json!({ "t": "ready", "v": 1, "driver": "my 1.0", "locks": { "Lock": lock } }))
    }

    #[test]
    fn card_contains_the_drivers_declarations() {
        let all = with_parameters(&json!({
            "tries": { "default": 3 }, "fair": { "default": true }, "pause": { "default": "100ms" },
            "how": { "default": "slow", "one_of": ["slow", "fast"] },
        }));
        let (entry, lock) = all.unwrap()[0];
        assert_eq!((entry.card.name, lock.name), ("my:Lock", "Lock"));
        assert!(entry.card.guarantees.fifo && entry.card.guarantees.has_read_side());
        let kinds: Vec<_> = entry.card.params.iter().map(|param| (param.name, param.kind)).collect();
        assert_eq!(kinds[0], ("fair", ParamKind::Bool));
        assert_eq!(kinds[1], ("how", ParamKind::OneOf(&["slow", "fast"])));
        assert_eq!(kinds[2], ("pause", ParamKind::Duration));
        assert_eq!(kinds[3], ("tries", ParamKind::Count(0, MOST)));
        let pause = ParamValue::Duration(Duration::from_millis(100));
        let wanted = lock.wanted(&Params::from([("pause".into(), pause)]), 7);
        assert_eq!((wanted.lock.as_str(), &wanted.parameters["pause"]), ("Lock", &json!(100)));
    }

    #[test]
    fn semaphore_card_has_the_declared_leases_and_permits() {
        let semaphore = |leases: &str| {
            json!({ "t": "ready", "v": 1, "driver": "my 1.0", "locks": { "S": {
                "timeout": "native", "cancel": "none", "leases": leases,
                "parameters": { "max": { "default": 2 }, "permits": { "default": 1 } } } } })
        };
        let (entry, lock) = locks(semaphore("max")).unwrap()[0];
        assert_eq!(entry.card.guarantees.holders, Holders::Leases("max"));
        assert_eq!(entry.card.params[0].kind, ParamKind::Count(1, LEASES_MOST));
        assert_eq!(entry.card.params[1].kind, ParamKind::CountWithin(1, LEASES_MOST, "max"));
        let permits = Params::from([("permits".to_owned(), ParamValue::Count(3))]);
        assert_eq!(lock.wanted(&permits, 1).leases, Some(3));
        assert_eq!(lock.wanted(&Params::new(), 1).leases, Some(1));
        let error = locks(semaphore("mox")).unwrap_err();
        assert!(error.contains("`leases` of `S` is `mox`"), "{error}");
    }

    #[test]
    fn drivers_without_contenders_or_writers_are_refused() {
        for (contenders, modes, why) in [
            (0, json!(["write"]), "driver `my`: `contenders` is 0"),
            (1, json!(["read"]), "driver `my`: `L` declares no mode `write`"),
        ] {
            let lock = json!({ "timeout": "none", "cancel": "none", "modes": modes });
            let ready = json!({ "t": "ready", "v": 1, "driver": "my", "contenders": contenders, "locks": { "L": lock } });
            assert_eq!(locks(ready).unwrap_err(), why);
        }
    }

    #[test]
    fn invalid_parameters_are_refused() {
        for (default, why) in [
            (json!(-1), "not a whole number"),
            (json!("slow"), "neither a time"),
            (json!([]), "not a number"),
        ] {
            let error = with_parameters(&json!({ "p": { "default": default } })).unwrap_err();
            assert!(error.contains("driver `my`: parameter `p`") && error.contains(why), "{error}");
        }
        for (name, why) in [("processes", "scenarios use this key"), ("a b", "not a valid name")] {
            let error = with_parameters(&json!({ name: { "default": 1 } })).unwrap_err();
            assert!(error.contains(&format!("parameter `{name}`: {why}")), "{error}");
        }
    }
}
