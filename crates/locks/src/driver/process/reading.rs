//! Reads a driver's output: `ready`, answers, events, and violations of the protocol.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
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

/// Reads answers and events until the output ends or the driver fails.
pub(super) fn read_answers(inner: &Inner, output: impl Read, ready: Sender<Ready>) {
    let output = Noted { output, unfinished: &inner.unfinished };
    let mut output = BufReader::with_capacity(LONGEST_LINE, output);
    match read_lines(inner, &mut output, &ready) {
        Ok(rest) => inner.output_has_ended(&rest),
        Err(mishap) => {
            inner.fails(mishap);
            drop(ready);
            // A driver being killed must not block on its pipe.
            let _ = io::copy(&mut output, &mut io::sink());
        }
    }
}

/// Reads lines until the output ends, and returns the unfinished last line. Answers that arrive together are
/// passed on together, so that each batch wakes its receivers only once.
fn read_lines(
    inner: &Inner,
    output: &mut BufReader<impl Read>,
    ready: &Sender<Ready>,
) -> Result<Vec<u8>, Mishap> {
    let (mut line, mut answered) = (Vec::new(), Vec::new());
    let (mut is_ready, mut foreign) = (false, 0);
    loop {
        line.clear();
        match output.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line) {
            Ok(length) if length > 0 && line.last() == Some(&b'\n') => {}
            Ok(LONGEST_LINE) => {
                return Err(garbage(format!("a line of more than {LONGEST_LINE} bytes"), &line));
            }
            _ => return Ok(line),
        }
        if !is_ready {
            if let Some(told) = greeting(&line)? {
                is_ready = true;
                let _ = inner.is_ready.set(());
                let _ = ready.send(told);
            } else {
                *locked(&inner.foreign) = shown(&line);
                foreign += 1;
                if foreign > FOREIGN_LINES {
                    return Err(garbage(format!("{foreign} lines before `ready`"), &line));
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
        told.map_err(|why| garbage(why, &line))?;
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
            self.fails(garbage("the output ends in the middle of a line".into(), rest));
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

/// Reads the answer to `hello`; `None` for a line that is not part of the protocol.
fn greeting(line: &[u8]) -> Result<Option<Ready>, Mishap> {
    let value = serde_json::from_slice::<serde_json::Value>(line).unwrap_or_default();
    let wrong = match value.get("t").and_then(|t| t.as_str()) {
        Some("refused") => {
            let why = value.get("why").and_then(|why| why.as_str()).unwrap_or("no reason given");
            return Err(Mishap::Refused(one_line(why)));
        }
        Some("ready") => match message::<Ready>("a `ready`", line) {
            Ok(ready) if ready.v != VERSION => {
                Some(format!("the driver chose protocol version {}, which was not offered", ready.v))
            }
            Ok(ready) if ready.locks.is_empty() => Some("`ready` lists no locks".into()),
            Ok(ready) => return Ok(Some(ready)),
            Err(why) => Some(why),
        },
        _ => broken_ready(line),
    };
    wrong.map_or(Ok(None), |why| Err(garbage(why, line)))
}

fn garbage(why: String, line: &[u8]) -> Mishap {
    Mishap::Garbage { why, line: shown(line) }
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
    one_line(text.trim_end())
}
