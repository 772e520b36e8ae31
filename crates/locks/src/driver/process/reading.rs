//! Reads a driver's output: `ready`, answers, events, and violations of the protocol.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::super::how;
use super::super::protocol::{
    Answer, Event, FOREIGN_LINES, LONGEST_LINE, Line, Ready, VERSION, What, broken_ready, message, session_id,
};
use super::{Inner, Mishap};
use zklockbench_core::clock;
use zklockbench_core::locked::locked;
use zklockbench_core::units::one_line;
use zklockbench_zk::SessionState;

/// Maximum number of events per second: a base, plus an allowance for each contender.
const EVENTS_A_SECOND: usize = 1_000;
const EVENTS_OF_EACH: usize = 20;
/// Maximum number of bytes quoted from an invalid line.
const SHOWN: usize = 200;

/// Reads answers and events until the output ends or the driver fails. Answers that arrive together are
/// passed on together, so that each batch wakes its receivers only once.
pub(super) fn read_answers(inner: &Inner, output: impl Read, ready: &std::sync::mpsc::Sender<Ready>) {
    let output = Noted { output, unfinished: &inner.unfinished };
    let mut output = BufReader::with_capacity(LONGEST_LINE, output);
    let (mut line, mut answered) = (Vec::new(), Vec::new());
    let (mut is_ready, mut foreign) = (false, 0);
    loop {
        line.clear();
        let read = (&mut output).take(LONGEST_LINE as u64).read_until(b'\n', &mut line);
        let garbage = |why: String, line: &[u8]| Mishap::Garbage { why, line: shown(line) };
        match read {
            Ok(length) if length > 0 && line.last() == Some(&b'\n') => {}
            Ok(LONGEST_LINE) => {
                inner.fails(garbage(format!("a line of more than {LONGEST_LINE} bytes"), &line));
                return drain(output);
            }
            _ => return inner.output_has_ended(&line),
        }
        if !is_ready {
            match greeting(&line) {
                Greeting::Ready(told) => {
                    is_ready = true;
                    let _ = inner.is_ready.set(());
                    let _ = ready.send(*told);
                }
                Greeting::Refused(why) => {
                    inner.fails(Mishap::Refused(why));
                    return;
                }
                Greeting::Wrong(why) => {
                    inner.fails(garbage(why, &line));
                    return drain(output);
                }
                Greeting::None => {
                    *locked(&inner.foreign) = shown(&line);
                    foreign += 1;
                    if foreign > FOREIGN_LINES {
                        inner.fails(garbage(format!("{foreign} lines before `ready`"), &line));
                        return drain(output);
                    }
                }
            }
            continue;
        }
        let arrived = clock::now();
        let told = Line::read(&line).and_then(|told| match told {
            Line::Answer(answer) => {
                answered.push(inner.answered(Answer { arrived, ..*answer })?);
                Ok(())
            }
            Line::Event(event) => {
                pass_on(&mut answered);
                inner.told(&event)
            }
        });
        if told.is_err() || !output.buffer().contains(&b'\n') {
            pass_on(&mut answered);
        }
        if let Err(why) = told {
            inner.fails(garbage(why, &line));
            return drain(output);
        }
    }
}

impl Inner {
    fn answered(&self, answer: Answer) -> Result<AddressedAnswer, String> {
        let id = answer.id;
        let pending = locked(&self.pending).remove(&id);
        let pending = pending.ok_or_else(|| format!("no request with the id {id} is pending"))?;
        Ok((pending.to, answer))
    }

    fn told(&self, event: &Event) -> Result<(), String> {
        let contenders = locked(&self.contenders);
        let Some(states) = contenders.get(&event.c) else {
            return Err(format!("there is no contender {}", event.c));
        };
        let most = EVENTS_A_SECOND + EVENTS_OF_EACH * contenders.len();
        let mut events = locked(&self.events);
        let now = clock::now();
        *events = if now < events.0 + 1_000_000 { (events.0, events.1 + 1) } else { (now, 1) };
        if events.1 > most {
            return Err(format!("more than {most} events in a second"));
        }
        drop(events);
        // Requests of a session that the client opened itself are not foreign interference.
        if let Some(session) = &event.session {
            let id = session_id(session).ok_or("`session` must be `0x` and up to 16 hexadecimal digits")?;
            zklockbench_zk::note_own_session(id);
        }
        match event.what {
            What::Connected if states.borrow().is_terminated() => {
                let count = &self.reopened[usize::from(event.session.is_none())];
                count.fetch_add(1, Ordering::Relaxed);
            }
            What::Connected => turns(states, SessionState::SyncConnected),
            What::Suspended => turns(states, SessionState::Disconnected),
            What::Expired | What::Lost => turns(states, SessionState::Expired),
            What::Late => drop(self.late.fetch_add(1, Ordering::Relaxed)),
            What::Revoked => {}
        }
        Ok(())
    }

    fn output_has_ended(&self, rest: &[u8]) {
        if self.closing.get().is_some() {
            return self.ends_all();
        }
        if !rest.is_empty() {
            self.fails(Mishap::Garbage {
                why: "the output ends in the middle of a line".into(),
                line: shown(rest),
            });
            return;
        }
        // Leave time to read the last lines of standard error.
        let status = self.has_exited(Duration::from_millis(500));
        let how = status.map_or_else(|| "the process closed its output but is still running".to_owned(), how);
        std::thread::sleep(Duration::from_millis(20));
        self.fails(Mishap::Exited(how));
    }
}

/// Records a session's new state. A session that is over stays over, even if its client opens another
/// session.
fn turns(states: &watch::Sender<SessionState>, now: SessionState) {
    states.send_if_modified(|state| {
        let changes = !state.is_terminated();
        if changes {
            *state = now;
        }
        changes
    });
}

/// An answer and its receiver, which may be gone.
type AddressedAnswer = (oneshot::Sender<Answer>, Answer);

fn pass_on(told: &mut Vec<AddressedAnswer>) {
    told.drain(..).for_each(|(to, answer)| drop(to.send(answer)));
}

/// Discards output, so that a driver being killed does not block on its pipe.
fn drain(mut output: impl Read) {
    let _ = io::copy(&mut output, &mut io::sink());
}

/// Text since the last line break in a driver's output, up to [`SHOWN`] bytes.
#[derive(Default)]
pub(super) struct Unfinished(Mutex<Vec<u8>>);

/// Formats the text to append to a failure; empty if the output ends with a line break.
impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = locked(&self.0);
        if text.is_empty() {
            return Ok(());
        }
        write!(f, "; its last line has no line break: {}", shown(&text))
    }
}

/// A driver's output; notes the text since the last line break.
struct Noted<'a, R> {
    output: R,
    unfinished: &'a Unfinished,
}

impl<R: Read> Read for Noted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.output.read(buffer)?;
        let mut rest = &buffer[..length];
        let mut unfinished = locked(&self.unfinished.0);
        if let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') {
            unfinished.clear();
            rest = &rest[end + 1..];
        }
        let room = SHOWN.saturating_sub(unfinished.len());
        unfinished.extend(rest.iter().take(room));
        Ok(length)
    }
}

enum Greeting {
    Ready(Box<Ready>),
    Refused(String),
    Wrong(String),
    /// A line that is not part of the protocol.
    None,
}

fn greeting(line: &[u8]) -> Greeting {
    let value = serde_json::from_slice::<serde_json::Value>(line).unwrap_or_default();
    match value.get("t").and_then(|t| t.as_str()) {
        Some("refused") => Greeting::Refused(one_line(
            value.get("why").and_then(|why| why.as_str()).unwrap_or("no reason given"),
        )),
        Some("ready") => match message::<Ready>("a `ready`", line) {
            Ok(ready) if ready.v != VERSION => Greeting::Wrong(format!(
                "the driver chose protocol version {}, which was not offered",
                ready.v
            )),
            Ok(ready) if ready.locks.is_empty() => Greeting::Wrong("`ready` lists no locks".into()),
            Ok(ready) => Greeting::Ready(Box::new(ready)),
            Err(why) => Greeting::Wrong(why),
        },
        _ => broken_ready(line).map_or(Greeting::None, Greeting::Wrong),
    }
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
    one_line(text.trim_end())
}
