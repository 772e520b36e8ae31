//! Messages between the suite and a driver: JSON lines, version 1. `docs/testing-your-client.md` is the specification.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, schema_for};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use zklockbench_core::catalog::{LockCard, Mode};
use zklockbench_core::clock::Stamp;

pub const VERSION: u32 = 1;
/// Longest line in bytes, including the line break.
pub const LONGEST_LINE: usize = 64 << 10;
/// Maximum number of lines before `ready` that are not part of the protocol.
pub const FOREIGN_LINES: usize = 64;

/// A message to the driver: one object per line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "t", rename_all = "kebab-case")]
pub enum Request {
    /// First message: the protocol versions that the suite supports, preferred version first.
    Hello { v: Vec<u32>, suite: String },
    /// Open a session for a contender.
    Open {
        id: u64,
        /// Number of the contender.
        c: usize,
        /// `host:port,host:port/chroot`; the session should be on the first server.
        connect: String,
        /// Identity `user:password` for ZooKeeper's scheme `digest`; the lock's directory may be restricted
        /// to this identity.
        #[serde(skip_serializing_if = "Option::is_none")]
        auth: Option<String>,
        /// Files for TLS; without them, the connection is not encrypted.
        #[serde(skip_serializing_if = "Option::is_none")]
        tls: Option<WantedTls>,
        /// SASL identity.
        #[serde(skip_serializing_if = "Option::is_none")]
        sasl: Option<WantedSasl>,
        session_ms: u64,
        /// Name of one of the locks in `ready`.
        lock: String,
        /// Values of the lock's parameters; times are in milliseconds.
        parameters: BTreeMap<String, Value>,
    },
    /// Wait for the lock.
    Acquire {
        id: u64,
        c: usize,
        /// Path of the lock.
        on: String,
        mode: Mode,
        /// Number of leases to acquire, all or none.
        #[serde(skip_serializing_if = "Option::is_none")]
        leases: Option<u64>,
        /// Timeout of the acquire; if missing, the acquire has no timeout.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// Release the lock.
    Release { id: u64, c: usize, on: String },
    /// End a wait. Both the acquire and this request get an answer.
    Cancel { id: u64, of: u64 },
    /// Answer at once: from the reading thread or, with `c`, from the contender's own thread.
    Echo {
        id: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        c: Option<usize>,
    },
    /// Release all held locks and end the session.
    Close { id: u64, c: usize },
}

/// PEM files for an encrypted connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WantedTls {
    /// Authorities that signed the servers' certificates.
    pub ca: PathBuf,
    /// Certificate of the client, if servers require one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Whether the hosts in `connect` differ from the names in the servers' certificates. If so, check only
    /// the authority.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other_names: bool,
}

/// Identity for SASL.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WantedSasl {
    /// `DIGEST-MD5`.
    pub mechanism: &'static str,
    pub user: String,
    pub password: String,
}

impl fmt::Debug for WantedSasl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedSasl").field("mechanism", &self.mechanism).field("user", &self.user).finish()
    }
}

/// The answer to `hello`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct Ready {
    /// `ready`.
    pub t: ReadyWord,
    /// Protocol version chosen by the driver.
    pub v: u32,
    /// Name and version of the driver.
    pub driver: String,
    /// Libraries in the driver, with their versions: `{"kazoo": "2.8.0"}`.
    #[serde(default)]
    pub inside: BTreeMap<String, String>,
    /// System that provides the locks.
    #[serde(default = "zookeeper")]
    pub system: String,
    /// Whether the driver's connections can be encrypted.
    #[serde(default)]
    pub tls: bool,
    /// Whether the driver can authenticate with SASL DIGEST-MD5.
    #[serde(default)]
    pub sasl: bool,
    /// Locks of the driver, by name.
    pub locks: BTreeMap<String, Abilities>,
    /// Maximum number of contenders per process.
    #[serde(default = "many")]
    pub contenders: usize,
    /// Clock of the stamps; if missing, stamps are ignored.
    #[serde(default)]
    pub clock: Option<DriverClock>,
}

/// Clock of a driver's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriverClock {
    /// CLOCK_MONOTONIC, which is the same in all processes of a host.
    Monotonic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyWord {
    Ready,
}

/// Explains why a line is a malformed `ready`; `None` for banners and other output.
pub fn broken_ready(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) if text.len() == line.trim_ascii().len() => {
            value.get("t").map(|_| "`ready` must be the first message".to_owned())
        }
        Ok(_) => Some("not JSON: the line starts with a byte order mark".to_owned()),
        Err(error) => {
            let names_it = ["\"ready\"", "'ready'"].iter().any(|word| text.contains(word));
            let is_meant = text.starts_with('{') || names_it || text.eq_ignore_ascii_case("ready");
            is_meant.then(|| format!("not JSON: {error}"))
        }
    }
}

fn zookeeper() -> String {
    LockCard::ZOOKEEPER.to_owned()
}

fn many() -> usize {
    4_096
}

/// Abilities of one lock of a driver.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct Abilities {
    /// One-line description.
    #[serde(default)]
    pub summary: String,
    /// Supported modes.
    #[serde(default = "write_only")]
    pub modes: Vec<Mode>,
    /// Whether an acquire ends at its timeout.
    pub timeout: How,
    /// Whether a wait can be cancelled.
    pub cancel: How,
    /// Kind of `token`.
    #[serde(default)]
    pub token: TokenKind,
    /// Order of service.
    #[serde(default)]
    pub order: Order,
    #[serde(default)]
    pub reentrant: bool,
    /// Whether the driver reports the loss of a session.
    #[serde(default)]
    pub lost: bool,
    /// Name of the parameter that sets the number of simultaneous holders; if missing, the lock has one
    /// holder.
    #[serde(default)]
    pub leases: Option<String>,
    /// Parameters, by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
}

fn write_only() -> Vec<Mode> {
    vec![Mode::Write]
}

/// How a driver implements an ability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The library implements the ability.
    Native,
    /// The driver implements the ability, because the library does not. An event reports a grant that arrives
    /// too late.
    Emulated,
    None,
}

/// Kind of a driver's `token`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TokenKind {
    /// The transaction that created the contender's node.
    Czxid,
    /// Another value that increases from holder to holder.
    Other,
    #[default]
    None,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    Fifo,
    #[default]
    None,
}

/// A parameter of a lock. The default determines its type.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct Parameter {
    /// A whole number, `true` or `false`, a word, or a time such as `"100ms"`.
    pub default: Value,
    /// Allowed words, if the parameter takes words.
    #[serde(default)]
    pub one_of: Vec<String>,
    #[serde(default)]
    pub doc: String,
}

/// The driver's answer to a request.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = [{ "required": ["ok"] }, { "required": ["err"] }]))]
pub struct Answer {
    pub id: u64,
    /// Result of a request that succeeded.
    #[serde(default)]
    pub ok: Option<Done>,
    /// Kind of error of a request that failed. After `timeout`, `cancelled`, `busy`, `refused`, `unsupported`
    /// or `bad-request`, the lock is certainly not held. After `connection`, `session` or any other word, the
    /// outcome is unknown.
    #[serde(default)]
    pub err: Option<String>,
    /// Description of the error.
    #[serde(default)]
    pub message: Option<String>,
    /// Whether the lock is held despite the error, if `err` does not determine this.
    #[serde(default)]
    pub held: Option<Believed>,
    /// Time at which the library was called, in microseconds of the monotonic clock.
    #[serde(default)]
    pub from: Option<u64>,
    /// Time at which the library returned.
    #[serde(default)]
    pub to: Option<u64>,
    /// Time at which the bytes were read.
    #[serde(skip)]
    pub arrived: Stamp,
}

/// Whether a driver believes that its contender holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Believed {
    No,
    Maybe,
    Yes,
}

/// Result of a successful request.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
pub struct Done {
    /// Answer to `open`: session id, `0x` and hexadecimal digits.
    #[serde(default)]
    pub session: Option<String>,
    /// Answer to `open`: session password in hexadecimal digits, with which the suite can expire the session.
    #[serde(default)]
    pub password: Option<String>,
    /// Answer to `open`: session timeout that the server granted.
    #[serde(default)]
    pub session_ms: Option<u64>,
    /// Answer to `acquire`: fencing token.
    #[serde(default)]
    pub token: Option<Token>,
    /// Answer to `acquire`: the contender's node, as a path or as a name in the lock's directory.
    #[serde(default)]
    pub node: Option<String>,
    /// Answer to `echo`: the driver's monotonic clock in microseconds.
    #[serde(default)]
    pub now: Option<u64>,
    /// Answer to `close`: locks still held.
    #[serde(default)]
    pub held: Vec<String>,
}

impl Done {
    /// Returns the path of the reported node. Drivers may report a name within the lock's directory.
    pub fn node_of(&self, lock: &str) -> Option<String> {
        let name = self.node.as_deref()?;
        Some(if name.starts_with('/') { name.to_owned() } else { format!("{lock}/{name}") })
    }
}

/// A fencing token: a number up to 2^53, or a string of decimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a whole number or a string of digits")]
pub enum Token {
    Number(i64),
    Text(String),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl Token {
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// An event that a driver reports without a request.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct Event {
    /// `event`.
    pub t: EventWord,
    pub c: usize,
    pub what: What,
    /// Time in microseconds of the monotonic clock.
    #[serde(default)]
    pub at: Option<u64>,
    /// Event `connected`: the client's session, if it is new.
    #[serde(default)]
    pub session: Option<String>,
    /// Event `late`: the acquire that was answered with a timeout.
    #[serde(default)]
    pub of: Option<u64>,
    /// Event `late`: path of the lock.
    #[serde(default)]
    pub on: Option<String>,
    /// Event `late`: start of the hold.
    #[serde(default)]
    pub from: Option<u64>,
    /// Event `late`: end of the hold.
    #[serde(default)]
    pub to: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventWord {
    Event,
}

/// Parses a session's number as drivers write it: `0x` and hexadecimal digits.
pub fn session_id(text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
}

/// Parses a session's password as drivers write it: pairs of hexadecimal digits.
pub fn password_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    Connected,
    /// The connection is lost; the session may still be alive.
    Suspended,
    /// The session has ended.
    Expired,
    /// The lock is lost although the session is still alive.
    Lost,
    /// The contender was asked to release the lock.
    Revoked,
    /// A lock was granted after its acquire had been answered with a timeout, and was released at once.
    Late,
}

/// A line that a driver writes after `ready`.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    Answer(Box<Answer>),
    Event(Event),
}

impl Line {
    pub fn read(line: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Tagged {
            t: Option<IgnoredAny>,
        }
        if line.trim_ascii().is_empty() {
            return Err("not JSON: the line is empty".into());
        }
        // Avoid building a tree, because every cycle reads two answers.
        let is_event = match serde_json::from_slice::<Tagged>(line) {
            Ok(Tagged { t }) => t.is_some(),
            Err(error) if error.is_data() => false,
            Err(error) => return Err(format!("not JSON: {error}")),
        };
        if is_event {
            return message("an event", line).map(Self::Event);
        }
        let answer: Answer = message("an answer", line)?;
        if answer.ok.is_some() == answer.err.is_some() {
            return Err("an answer must have either `ok` or `err`".into());
        }
        Ok(Self::Answer(Box::new(answer)))
    }
}

/// Reads a message of this kind; the error names the wrong field.
pub fn message<T: DeserializeOwned>(kind: &str, line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        // Tracking the fields is slow, so only a wrong message is read again, to find the wrong field.
        let again = &mut serde_json::Deserializer::from_slice(line);
        let located = serde_path_to_error::deserialize::<_, T>(again);
        let why = located.err().map_or_else(|| error.to_string(), |located| located.to_string());
        format!("not {kind}: {why}")
    })
}

/// Returns the JSON Schemas of all messages: `request` for messages to a driver, all others for messages from
/// a driver.
pub fn schemas() -> Value {
    json!({
        "version": VERSION,
        "request": schema_for!(Request),
        "ready": schema_for!(Ready),
        "refused": {
            "description": "Answer to `hello` if the driver supports none of the versions.",
            "type": "object",
            "required": ["t", "why"],
            "properties": { "t": { "const": "refused" }, "why": { "type": "string" } },
        },
        "answer": schema_for!(Answer),
        "event": schema_for!(Event),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_serialised_with_its_kind_as_field_t() {
        let acquire = Request::Acquire {
            id: 2,
            c: 7,
            on: "/lock-0".into(),
            mode: Mode::Write,
            leases: None,
            timeout_ms: None,
        };
        let found = serde_json::to_string(&acquire).unwrap();
        assert_eq!(found, r#"{"t":"acquire","id":2,"c":7,"on":"/lock-0","mode":"write"}"#);
    }

    #[test]
    fn ready_lines_are_distinguished_from_banners() {
        for meant in [
            "{'t': 'ready', 'v': 1}",
            "{\"t\":\"ready\",\"v\":1,}",
            "{t:\"ready\"}",
            "ready\n",
            "READY",
            "INFO {\"t\":\"ready\",\"v\":1}",
            "\u{feff}{\"t\":\"ready\",\"v\":1}",
            "{\"t\":\"hello\",\"v\":1}",
            "{\"t\":\"re",
        ] {
            assert!(broken_ready(meant.as_bytes()).is_some(), "{meant}");
        }
        for banner in
            ["", "Listening on 7", "getting ready to start", "[main] INFO x", "{\"level\":30}", "17", "null"]
        {
            assert_eq!(broken_ready(banner.as_bytes()), None, "{banner}");
        }
    }

    #[test]
    fn answer_has_either_ok_or_err_and_unknown_fields_are_ignored() {
        let read = |line: &str| Line::read(line.as_bytes());
        assert!(matches!(read(r#"{"id":1,"ok":{"token":"12","later":1},"later":2}"#), Ok(Line::Answer(_))));
        assert!(read(r#"{"id":1}"#).is_err() && read(r#"{"id":1,"ok":{},"err":"busy"}"#).is_err());
        assert!(read(r#"{"t":"event","c":1,"what":"tired"}"#).unwrap_err().starts_with("not an event"));
    }

    #[test]
    fn wrong_messages_are_reported_with_their_fields() {
        for (line, why) in [
            ("hello", "not JSON: expected value"),
            ("\r\n", "not JSON: the line is empty"),
            (r#"{"id":1,"ok":{}}{"id":2,"ok":{}}"#, "not JSON: trailing characters"),
            (r#"{"id":1,"ok":{},"to":NaN}"#, "not JSON: expected value"),
            (r#"{"id":-1,"ok":{}}"#, "not an answer: id: invalid value: integer `-1`, expected u64"),
            (
                r#"{"id":1,"ok":{},"to":7.5}"#,
                "not an answer: to: invalid type: floating point `7.5`, expected u64",
            ),
            (r#"{"id":1,"ok":true}"#, "not an answer: ok: invalid type: boolean `true`, expected an object"),
            (
                r#"{"id":1,"ok":{"token":7.5}}"#,
                "not an answer: ok.token: expected a whole number or a string",
            ),
            (r#"{"t":"event","c":"0","what":"late"}"#, "not an event: c: invalid type: string"),
        ] {
            let error = Line::read(line.as_bytes()).unwrap_err();
            assert!(error.starts_with(why), "{line}: {error}");
        }
        let locks = r#"{"t":"ready","v":1,"driver":"my 1","locks":{"L":{"cancel":"none"}}}"#;
        let error = message::<Ready>("a `ready`", locks.as_bytes()).unwrap_err();
        assert!(error.starts_with("not a `ready`: locks.L: missing field `timeout`"), "{error}");
    }
}
