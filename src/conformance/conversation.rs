//! One process of a driver, spoken to line by line. All that it says is kept with the time at which it came, and what is wrong
//! with it is told in words: [`Process`](zklockbench_locks::driver::Process), by which trials speak to drivers, only has to know
//! that something is.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Trouble, wrong};
use zklockbench_core::clock::micros;
use zklockbench_core::units::one_line;
use zklockbench_locks::driver::protocol::{
    Answer, Event, FOREIGN_LINES, LONGEST_LINE, Line, Ready, VERSION, What, broken_ready,
};
use zklockbench_locks::driver::{DriverChild, DriverCommand, LastLines, READY_WITHIN, how};
use zklockbench_zk::reactor;

/// So much of what it says waits to be looked at; then it has to wait itself.
const HEARD_AHEAD: usize = 256;
/// More events than that in one process are a flood.
const EVENTS_AT_MOST: usize = 10_000;
const SHOWN: usize = 200;
const LAST_LINES: usize = 8;

/// Microseconds of the monotonic clock, which all processes of a host share.
pub(super) fn monotonic() -> u64 {
    micros(Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default())
}

/// An answer, and when its request was sent and it came.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub answer: Answer,
    pub sent: u64,
    pub came: u64,
}

enum Heard {
    Line(Vec<u8>),
    TooLong(Vec<u8>),
    /// The end of its output, perhaps in the middle of a line.
    End(Vec<u8>),
}

pub(super) struct Conversation {
    pub ready: Ready,
    /// `ready` as it was written.
    pub declared: Value,
    pub events: Vec<(u64, Event)>,
    pub family: ProcessFamily,
    /// Lines before `ready` that are not the protocol's.
    pub foreign: usize,
    child: Child,
    group: Pid,
    input: Option<std::sync::mpsc::Sender<Vec<u8>>>,
    heard: mpsc::Receiver<(u64, Heard)>,
    errors: Arc<LastLines>,
    next: u64,
    /// What each request is that is not answered, and when it was sent.
    asked: HashMap<u64, (&'static str, u64)>,
    answered: HashMap<u64, Answered>,
    over: HashSet<u64>,
    opened: HashSet<usize>,
    /// The first thing that was wrong: what comes after it can't be trusted.
    wrong: Option<String>,
}

impl Conversation {
    pub async fn start(command: &DriverCommand) -> Result<Self, String> {
        let marker = uuid::Uuid::new_v4().to_string();
        let started = command.spawn(&[(MARKER, &marker)]);
        let DriverChild { child, group, input, output, errors } =
            started.map_err(|why| format!("can't be started: {why}"))?;
        let (to_input, lines) = std::sync::mpsc::channel::<Vec<u8>>();
        let (to_here, heard) = mpsc::channel(HEARD_AHEAD);
        let last = Arc::new(LastLines::new(LAST_LINES, SHOWN));
        let kept = Arc::clone(&last);
        let threads = [
            thread(move || write_lines(input, &lines)),
            thread(move || read_lines(output, &to_here)),
            thread(move || kept.read(errors)),
        ];
        let mut this = Self {
            // Until it has said what it is.
            ready: serde_json::from_value(json!({ "t": "ready", "v": VERSION, "driver": "", "locks": {} }))
                .map_err(|error| error.to_string())?,
            declared: Value::Null,
            events: Vec::new(),
            family: ProcessFamily::of(group, &marker),
            foreign: 0,
            child,
            group,
            input: Some(to_input),
            heard,
            errors: last,
            next: 1,
            asked: HashMap::new(),
            answered: HashMap::new(),
            over: HashSet::new(),
            opened: HashSet::new(),
            wrong: None,
        };
        if threads.iter().any(Result::is_err) {
            return Err("this host has no thread left".into());
        }
        this.greet().await?;
        Ok(this)
    }

    async fn greet(&mut self) -> Result<(), String> {
        let suite = format!("zklockbench {}", env!("CARGO_PKG_VERSION"));
        self.write(&json!({ "t": "hello", "v": [VERSION], "suite": suite }));
        let until = monotonic() + micros(READY_WITHIN);
        loop {
            let left = Duration::from_micros(until.saturating_sub(monotonic()));
            let Some(heard) = reactor::timeout(left, self.heard.recv()).await else {
                let within = READY_WITHIN.as_secs();
                return Err(format!(
                    "was not ready within {within} s (does it flush what it writes?){}",
                    self.last_words()
                ));
            };
            let line = match heard {
                Some((_, Heard::Line(line))) => line,
                Some((_, Heard::TooLong(line))) => return Err(too_long(&line)),
                Some((_, Heard::End(_))) | None => return Err(self.ending()),
            };
            let value: Value = serde_json::from_slice(&line).unwrap_or_default();
            let is_known = matches!(value["t"].as_str(), Some("refused" | "ready"));
            if let Some(why) = broken_ready(&line).filter(|_| !is_known) {
                return Err(format!("wrote what is not the protocol: {why}: {}", shown(&line)));
            }
            match value["t"].as_str() {
                Some("refused") => return Err(format!("refuses: {}", value["why"])),
                Some("ready") => {
                    let ready: Ready = serde_json::from_value(value.clone())
                        .map_err(|error| format!("says what is not a `ready`: {error}: {}", shown(&line)))?;
                    if ready.v != VERSION || ready.locks.is_empty() {
                        return Err(format!("offers another version, or no lock: {}", shown(&line)));
                    }
                    (self.ready, self.declared) = (ready, value);
                    return Ok(());
                }
                _ if self.foreign == FOREIGN_LINES => {
                    return Err(format!("wrote {FOREIGN_LINES} lines before `ready`: {}", shown(&line)));
                }
                _ => self.foreign += 1,
            }
        }
    }

    /// Sends a request with a number of its own, which it returns.
    pub fn ask(&mut self, doing: &'static str, mut request: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        request["id"] = id.into();
        if let (Some("open"), Some(c)) = (request["t"].as_str(), request["c"].as_u64()) {
            self.opened.insert(usize::try_from(c).unwrap_or(usize::MAX));
        }
        self.asked.insert(id, (doing, monotonic()));
        self.write(&request);
        id
    }

    pub fn cancels(&mut self, of: u64) -> u64 {
        self.ask("`cancel`", json!({ "t": "cancel", "of": of }))
    }

    fn write(&self, value: &Value) {
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        if let Some(input) = &self.input {
            // It fails where the process has ended, which its output tells.
            let _ = input.send(line);
        }
    }

    pub async fn answer(&mut self, id: u64, within: Duration) -> Result<Answered, Trouble> {
        let (_, answered) = self.first_answer(&[id], within).await?;
        Ok(answered)
    }

    pub async fn first_answer(&mut self, ids: &[u64], within: Duration) -> Result<(u64, Answered), Trouble> {
        let until = monotonic() + micros(within);
        loop {
            if let Some(found) = self.take_answer(ids) {
                return Ok(found);
            }
            self.is_right()?;
            if !self.hear_until(until).await {
                let doing =
                    ids.first().and_then(|id| self.asked.get(id)).map_or("a request", |(doing, _)| doing);
                return wrong(format!(
                    "{doing} was not answered within {} ms{}",
                    within.as_millis(),
                    self.last_words()
                ));
            }
        }
    }

    pub fn take_answer(&mut self, ids: &[u64]) -> Option<(u64, Answered)> {
        let id = *ids
            .iter()
            .filter(|id| self.answered.contains_key(id))
            .min_by_key(|id| self.answered[id].came)?;
        Some((id, self.answered.remove(&id)?))
    }

    pub async fn listen(&mut self, duration: Duration) -> Result<(), Trouble> {
        let until = monotonic() + micros(duration);
        while self.hear_until(until).await && self.wrong.is_none() {}
        self.is_right()
    }

    /// Listens until one of these events of a contender has come, or the time is over. Those before `from` don't count.
    pub async fn event(
        &mut self,
        c: usize,
        whats: &[What],
        from: usize,
        within: Duration,
    ) -> Result<Option<u64>, Trouble> {
        let until = monotonic() + micros(within);
        loop {
            let fits = |(_, event): &&(u64, Event)| event.c == c && whats.contains(&event.what);
            if let Some((at, _)) = self.events[from..].iter().find(fits) {
                return Ok(Some(*at));
            }
            self.is_right()?;
            if !self.hear_until(until).await {
                return Ok(None);
            }
        }
    }

    /// What it has been asked after all is answered, and nothing else has come.
    pub async fn settle(&mut self) -> Result<(), Trouble> {
        let id = self.ask("an echo", json!({ "t": "echo" }));
        self.answer(id, Duration::from_secs(10)).await?;
        self.listen(Duration::from_millis(30)).await?;
        match self.asked.iter().next() {
            Some((id, (doing, _))) => wrong(format!("{doing} (id {id}) got no answer")),
            None => Ok(()),
        }
    }

    fn is_right(&self) -> Result<(), Trouble> {
        self.wrong.clone().map_or(Ok(()), wrong)
    }

    /// Listens to the next thing; false where nothing comes till then.
    async fn hear_until(&mut self, until: u64) -> bool {
        let left = Duration::from_micros(until.saturating_sub(monotonic()));
        match reactor::timeout(left, self.heard.recv()).await {
            Some(Some((came, heard))) => {
                if let Err(why) = self.heard(came, heard) {
                    self.wrong.get_or_insert(why);
                }
                true
            }
            Some(None) => {
                if self.wrong.is_none() {
                    self.wrong = Some(self.ending());
                }
                true
            }
            None => false,
        }
    }

    fn heard(&mut self, came: u64, heard: Heard) -> Result<(), String> {
        let line = match heard {
            Heard::Line(line) => line,
            Heard::TooLong(line) => return Err(too_long(&line)),
            Heard::End(rest) if rest.is_empty() => return Err(self.ending()),
            Heard::End(rest) => {
                return Err(format!("its output ended in the middle of a line: {}", shown(&rest)));
            }
        };
        match Line::read(&line)
            .map_err(|why| format!("wrote what is not the protocol: {why}: {}", shown(&line)))?
        {
            Line::Event(event) if !self.opened.contains(&event.c) => {
                Err(format!("an event of a contender that there is not: {}", shown(&line)))
            }
            Line::Event(event) => {
                self.events.push((came, event));
                if self.events.len() > EVENTS_AT_MOST {
                    return Err(format!("more than {EVENTS_AT_MOST} events, the last: {}", shown(&line)));
                }
                Ok(())
            }
            Line::Answer(answer) => {
                let id = answer.id;
                let Some((_, sent)) = self.asked.remove(&id) else {
                    let again = self.over.contains(&id);
                    let what = if again { "answered twice" } else { "answered what was not asked" };
                    return Err(format!("{what}: {}", shown(&line)));
                };
                self.over.insert(id);
                self.answered.insert(id, Answered { answer: *answer, sent, came });
                Ok(())
            }
        }
    }

    fn ending(&mut self) -> String {
        let until = monotonic() + 500_000;
        let mut status = None;
        while status.is_none() && monotonic() < until {
            status = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(2));
        }
        // What it wrote last is being read.
        std::thread::sleep(Duration::from_millis(20));
        format!(
            "ended: {}{}",
            status.map_or("it has closed its output and runs on".to_owned(), how),
            self.last_words()
        )
    }

    fn last_words(&self) -> String {
        let lines = self.errors.all();
        if lines.is_empty() { String::new() } else { format!("; it wrote last: {}", lines.join(" / ")) }
    }

    /// Ends its input; how it exits within that time, if it does.
    pub async fn end_input(&mut self, within: Duration) -> Option<ExitStatus> {
        self.input = None;
        self.exits(within).await
    }

    pub async fn exits(&mut self, within: Duration) -> Option<ExitStatus> {
        let until = monotonic() + micros(within);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if monotonic() >= until {
                return None;
            }
            // Nobody asks what it still says; it must not wait for that.
            let soon = monotonic() + 5_000;
            while self.hear_until(soon.min(until)).await && monotonic() < soon {
                if self.wrong.is_some() {
                    reactor::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }

    pub fn kill(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

/// Nothing of it is left, whatever it has started.
impl Drop for Conversation {
    fn drop(&mut self) {
        self.family.look();
        self.kill();
        self.family.kill();
        let _ = self.child.wait();
    }
}

fn too_long(line: &[u8]) -> String {
    format!("wrote a line of more than {LONGEST_LINE} bytes: {}", shown(line))
}

fn shown(line: &[u8]) -> String {
    one_line(String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).trim_end())
}

fn thread(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name("driver-check".into()).spawn(work).map(drop)
}

fn write_lines(mut input: impl Write, lines: &std::sync::mpsc::Receiver<Vec<u8>>) {
    while let Ok(line) = lines.recv() {
        if input.write_all(&line).is_err() {
            return;
        }
    }
}

fn read_lines(output: impl Read, to: &mpsc::Sender<(u64, Heard)>) {
    let mut output = BufReader::with_capacity(LONGEST_LINE, output);
    loop {
        let mut line = Vec::new();
        let read = (&mut output).take(LONGEST_LINE as u64).read_until(b'\n', &mut line);
        let came = monotonic();
        let heard = match read {
            Ok(length) if length > 0 && line.last() == Some(&b'\n') => Heard::Line(line),
            Ok(LONGEST_LINE) => Heard::TooLong(line),
            _ => Heard::End(line),
        };
        let goes_on = matches!(heard, Heard::Line(_));
        // A driver that says more than is listened to has to wait.
        if to.blocking_send((came, heard)).is_err() || !goes_on {
            return;
        }
    }
}

/// The variable that all of them inherit.
const MARKER: &str = "ZKLOCKBENCH_CHECK";

/// A process that was started here and all that it has started, whatever these did to leave: another process group, another
/// parent.
#[derive(Debug)]
pub(super) struct ProcessFamily {
    group: i32,
    marker: String,
    /// All that were ever seen of it, each with when it was started: a number is given away again.
    known: BTreeSet<(i32, u64)>,
}

#[derive(Debug)]
struct Running {
    pid: i32,
    parent: i32,
    group: i32,
    began: u64,
    name: String,
}

impl ProcessFamily {
    fn of(group: Pid, marker: &str) -> Self {
        let marker = format!("{MARKER}={marker}");
        Self { group: group.as_raw_nonzero().get(), marker, known: BTreeSet::new() }
    }

    /// Those that run now, by number and name; also one that left group, parent and environment, if it was seen before.
    pub fn look(&mut self) -> Vec<(i32, String)> {
        let mut rest = running();
        let mut found = Vec::new();
        loop {
            let is_one = |one: &Running| {
                one.group == self.group
                    || self.known.contains(&(one.pid, one.began))
                    || self.known.iter().any(|(pid, _)| *pid == one.parent)
                    || has_variable(one.pid, &self.marker)
            };
            let (more, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_one);
            if more.is_empty() {
                return found;
            }
            rest = others;
            self.known.extend(more.iter().map(|one| (one.pid, one.began)));
            found.extend(more.into_iter().map(|one| (one.pid, one.name)));
        }
    }

    fn kill(&mut self) {
        for (pid, _) in self.look() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

fn running() -> Vec<Running> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.filter_map(of).collect()
}

fn of(pid: i32) -> Option<Running> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces and parentheses of its own.
    let (front, back) = stat.rsplit_once(')')?;
    let name = front.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = back.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    let is_over = matches!(fields.first(), Some(&"Z" | &"X"));
    let (parent, group) = (i32::try_from(number(1)?).ok()?, i32::try_from(number(2)?).ok()?);
    let began = u64::try_from(number(19)?).ok()?;
    (!is_over).then_some(Running { pid, parent, group, began, name })
}

fn has_variable(pid: i32, variable: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|one| one == std::ffi::OsStr::new(variable).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    fn until(mut is_so: impl FnMut() -> bool) {
        for _ in 0..6_000 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not within a minute");
    }

    #[test]
    fn whoever_left_the_group_and_the_parent_is_found_and_killed() {
        let marker = uuid::Uuid::new_v4().to_string();
        let mut shell = Command::new("sh");
        // The one in the background loses its parent, and is in a session of its own.
        shell.args(["-c", "setsid sleep 60 & exec true"]).env(MARKER, &marker).process_group(0);
        let mut shell = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(shell.id()).unwrap()).unwrap();
        shell.wait().unwrap();
        let mut family = ProcessFamily::of(group, &marker);
        // It is `setsid` at first, and for a moment after its end still there.
        until(|| matches!(family.look().as_slice(), [(_, name)] if name == "sleep"));
        family.kill();
        until(|| family.look().is_empty());
    }
}
