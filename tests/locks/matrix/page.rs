//! `docs/conformance.md`: the differences first.

use std::iter::once;

use zklockbench_ensemble::Role;

use super::event;
use super::{Column, Played, agree};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/conformance.md");

const ABOUT: &str = "\
Locks here that are written after others' code, and that code itself by its driver ([drivers.md](drivers.md)), by the same wire
before the same servers: do they send the same requests in the same order, whatever happens? Where they do not, the reason
stands in the lock's card ([locks.md](locks.md)), from which it is cited here.

Made by `scripts/conformance`; tests compare it with what locks do.";

const READING: &str = "\
`.` is the lock's directory, `<own>` an identifier in the name of an own node (`<own 2>` of the next one that it made), `<other>`
that of the holder. `[lost]`: the request did not reach the server; `[reply lost]`: it was carried out, and the connection broke
before its answer arrived. Lines with `--` say what happened in between. In a block, `<` marks what is sent here only, `>` what is sent by the original only.

Left out: pings, connecting, authentication, watches that are set anew after a reconnection, the session's end, Curator's looks
at `/zookeeper/config`, and the looks at their own node by which the drivers of kazoo, Go and WriteLock learn the fencing token
after each grant. Requests of one kind with and without a `Stat` in the reply count as one kind. `checkWatches`, by which Java
asks whether a watch is still set, is `exists` on the same path here: the client library has no such request.

Curator's locks try again once, after 300 ms (`retry_times = 1`, `retry_sleep = \"300ms\"`). Who waits, waits behind one holder,
which releases when all has come to rest.

- `creates exhausted`: every create that the lock tries is lost, of the last one the reply only. kazoo tries for ever. The
  multi-lock goes on to the next member while the node of the one before is deleted in the background, in no certain order.
- `timed out`: Go's lock knows no timeout; WriteLock's driver gives up for it, by `unlock`. Curator's
  semaphores ask about their watch then or not, depending on whether the event of their own delete has come by that time.
- `timed out in back-off`: an acquire with 40 ms whose list's reply is lost. WriteLock does not pause after a first loss.
- `session moved`: kazoo looks at the queue twice or once, depending on which of its threads is first; both count as the same.
- `session expired`: what kazoo is granted by another session than it began with is released by its driver.

Not played: a follower that lags where a reply was lost. None of these locks, here and there, asks for a `sync` before it looks
for its node, as `create's reply lost` shows; the cards say what comes of it.";

pub struct Page<'a> {
    pub servers: &'a [Role],
    pub columns: &'a [Column],
}

impl Page<'_> {
    pub fn write_if_asked(&self) {
        if std::env::var_os("ZKLOCKBENCH_UPDATE_DOCS").is_some() {
            std::fs::write(FILE, self.to_string()).unwrap();
        }
    }
}

impl std::fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.servers[0].version.as_deref().unwrap_or("unknown");
        let version = version.split('-').next().unwrap();
        writeln!(
            f,
            "# Conformance on the wire\n\n{ABOUT}\n\nServers: {} of ZooKeeper {version}.\n",
            self.servers.len()
        )?;
        writeln!(f, "{}\n## Where they differ\n\n{}\n{READING}", self.table(), self.reasons())?;
        self.columns.iter().try_for_each(|column| write!(f, "{}", column.differences()))?;
        writeln!(f, "\n## Where they are the same")?;
        self.columns.iter().try_for_each(|column| write!(f, "{}", column.same()))
    }
}

impl Page<'_> {
    /// Each reason once, with the events that it explains.
    fn reasons(&self) -> String {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for column in self.columns {
            for played in column.played.iter().filter(|played| !played.is_same()) {
                let reason = column.pair.reason(played.event.name).unwrap_or("not known");
                let at = reasons.iter().position(|(known, _)| *known == reason).unwrap_or_else(|| {
                    reasons.push((reason, Vec::new()));
                    reasons.len() - 1
                });
                let heading = column.heading(played);
                reasons[at].1.push(format!("[{heading}](#{})", anchor(&heading)));
            }
        }
        reasons.iter().map(|(reason, of)| format!("- “{reason}”: {}\n", of.join("; "))).collect()
    }

    fn table(&self) -> String {
        let names: Vec<&str> =
            once("event").chain(self.columns.iter().map(|column| column.pair.name)).collect();
        let mut table = format!("| {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len()));
        for event in event::of_pairs() {
            let cell = |column: &Column| {
                let played = column.played.iter().find(|played| played.event.name == event.name);
                match played {
                    None => "-".to_owned(),
                    Some(played) if played.is_same() => "same".to_owned(),
                    Some(played) => format!("[differs](#{})", anchor(&column.heading(played))),
                }
            };
            let cells: Vec<String> =
                once(event.name.to_owned()).chain(self.columns.iter().map(cell)).collect();
            table += &format!("| {} |\n", cells.join(" | "));
        }
        table
    }
}

/// The anchor that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_ascii_alphanumeric() || "- ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

impl Column {
    fn heading(&self, played: &Played) -> String {
        format!("{}: {}", self.pair.name, played.event.name)
    }

    fn differences(&self) -> String {
        let differing = self.played.iter().filter(|played| !played.is_same());
        let section = |played: &Played| {
            let reason = self.pair.reason(played.event.name).unwrap_or("not known");
            let (heading, difference) = (self.heading(played), difference(played));
            let card = self.pair.sayer(reason).unwrap_or("no card");
            let card = format!("[{card}](locks.md#{card})");
            format!("\n### {heading}\n\nThe card of {card} says: “{reason}”\n\n```text\n{difference}\n```\n")
        };
        differing.map(section).collect()
    }

    fn same(&self) -> String {
        let same = self.played.iter().filter(|played| played.is_same());
        let lines = same.map(|played| {
            let lines = played.ours.iter().map(|line| match line.strip_prefix("-- ") {
                Some(mark) => format!("*{mark}*"),
                None => format!("`{line}`"),
            });
            format!("- **{}**: {}\n", played.event.name, lines.collect::<Vec<_>>().join(", "))
        });
        format!("\n### {}\n\nOriginal: {}.\n\n{}", self.pair.name, self.original, lines.collect::<String>())
    }
}

/// Both sides line by line; lines that they share appear once.
pub fn difference(played: &Played) -> String {
    let (ours, theirs) = (&played.ours, &played.theirs);
    // Length of the longest common subsequence from each pair of lines on.
    let mut shared = vec![vec![0; theirs.len() + 1]; ours.len() + 1];
    for (at, line) in ours.iter().enumerate().rev() {
        for (other, other_line) in theirs.iter().enumerate().rev() {
            shared[at][other] = match agree(line, other_line) {
                true => shared[at + 1][other + 1] + 1,
                false => shared[at + 1][other].max(shared[at][other + 1]),
            };
        }
    }
    let (mut at, mut other, mut lines) = (0, 0, Vec::new());
    while at < ours.len() || other < theirs.len() {
        if at < ours.len() && other < theirs.len() && agree(&ours[at], &theirs[other]) {
            lines.push(format!("  {}", ours[at]));
            (at, other) = (at + 1, other + 1);
        } else if at < ours.len() && (other == theirs.len() || shared[at + 1][other] >= shared[at][other + 1])
        {
            lines.push(format!("< {}", ours[at]));
            at += 1;
        } else {
            lines.push(format!("> {}", theirs[other]));
            other += 1;
        }
    }
    lines.join("\n")
}

/// Asserts that the page shows the lock's behaviour, unless the page is of another version of the original.
pub fn assert_has(column: &Column) {
    let page = std::fs::read_to_string(FILE).unwrap_or_default();
    if !page.contains(&format!("Original: {}.", column.original)) && page.contains("Original: ") {
        println!("docs/conformance.md is of another version than {}", column.original);
        return;
    }
    for part in [column.differences(), column.same()] {
        assert!(
            page.contains(&part),
            "docs/conformance.md is stale; make it anew: scripts/conformance\n{part}"
        );
    }
}
