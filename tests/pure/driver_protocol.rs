//! The examples in `docs/testing-your-client.md` match the published schemas of driver messages.

use serde_json::{Value, json};
use zklockbench_locks::driver::protocol;

use crate::support::json_schema::Schema;

struct Schemas(Value);

impl Schemas {
    fn allow(&self, message: &str, line: &Value) -> bool {
        Schema::new(&self.0[message]).is_valid(line)
    }

    /// Returns whether a driver may send this message.
    fn allow_from_driver(&self, line: &Value) -> bool {
        ["ready", "refused", "answer", "event"].iter().any(|message| self.allow(message, line))
    }
}

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/testing-your-client.md")).unwrap()
}

/// Messages in the example session; `true` if the driver sends the message. A message may span several lines.
fn session() -> Vec<(bool, Value)> {
    let page = page();
    let (_, session) = page.split_once("## A whole session").unwrap();
    let mut lines: Vec<(bool, String)> = Vec::new();
    for line in session.split("```").nth(1).unwrap().lines() {
        if let Some(said) = line.strip_prefix("→ ") {
            lines.push((false, said.to_owned()));
        } else if let Some(said) = line.strip_prefix("← ") {
            lines.push((true, said.to_owned()));
        } else if let Some((_, last)) = lines.last_mut() {
            last.push_str(line.trim());
        }
    }
    let messages = lines.into_iter().filter(|(_, line)| line.starts_with('{'));
    messages.map(|(from_driver, line)| (from_driver, serde_json::from_str(&line).unwrap())).collect()
}

#[test]
fn example_session_in_the_docs_matches_the_driver_schemas_and_the_suite_parses_its_answers() {
    let (schemas, session) = (Schemas(protocol::schemas()), session());
    assert!(session.len() > 12, "{session:?}");
    for (from_driver, line) in &session {
        let allowed =
            if *from_driver { schemas.allow_from_driver(line) } else { schemas.allow("request", line) };
        assert!(allowed, "{line}");
        let read = protocol::Line::read(line.to_string().as_bytes());
        assert!(!from_driver || line["t"] == "ready" || read.is_ok(), "{line}: {read:?}");
    }
}

#[test]
fn inline_examples_in_the_docs_match_the_driver_schemas() {
    let schemas = Schemas(protocol::schemas());
    let page = page();
    let examples = page.split('`').filter(|part| part.starts_with("{\"id\"") || part.starts_with("{\"t\""));
    let examples: Vec<Value> = examples
        .map(|text| serde_json::from_str(text).unwrap_or_else(|why| panic!("{text}: {why}")))
        .collect();
    assert!(examples.len() >= 2);
    for example in examples {
        assert!(schemas.allow_from_driver(&example), "{example}");
    }
}

#[test]
fn the_driver_schemas_reject_malformed_messages() {
    let schemas = Schemas(protocol::schemas());
    for wrong in [
        json!({ "id": 1 }),
        json!({ "id": 1, "ok": {}, "err": "busy" }),
        json!({ "id": "1", "ok": {} }),
        json!({ "t": "event", "c": 1, "what": "tired" }),
        json!({ "t": "ready", "v": 1, "driver": "my 1", "locks": { "L": { "timeout": "native" } } }),
        json!({ "t": "ready", "v": 1, "driver": "my 1", "locks": { "L": { "timeout": "soon", "cancel": "none" } } }),
        json!({ "t": "refused" }),
    ] {
        assert!(!schemas.allow_from_driver(&wrong), "{wrong}");
    }
    for wrong in [json!({ "t": "acquire", "id": 1 }), json!({ "t": "tomorrow", "id": 1 })] {
        assert!(!schemas.allow("request", &wrong), "{wrong}");
    }
    assert!(schemas.allow_from_driver(&json!({ "id": 1, "ok": { "later": 1 }, "later": 2 })));
    assert_eq!(schemas.0["version"], protocol::VERSION);
}
