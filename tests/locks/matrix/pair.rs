//! Locks whose originals can be run by a driver.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zklockbench_core::catalog::Mode::{Read, Write};
use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_locks::driver::{DriverCommand, Process, Processes};
use zklockbench_locks::{DrivenLocks, Entry, LockConfig, Program, find};

use super::event::{self, Event, Terms};
use crate::support::sessions::{self, Scene};
use crate::support::{contender::Contender, foreign, skip};

const SESSION: Duration = Duration::from_secs(10);
/// Silence after which a client that has no connection or no pending acquire sends no more requests.
const GONE: Duration = Duration::from_secs(3);

pub struct Pair {
    /// Name on the page.
    pub name: &'static str,
    pub ours: &'static str,
    /// Directory of the original's driver. `needs` is the file that the driver requires.
    driver: &'static str,
    needs: &'static str,
    original: &'static str,
    mode: Mode,
    /// Number of lost creates after which an acquire ends.
    creates: usize,
    /// Time longer than any pause of the lock between two requests.
    calm: Duration,
    /// Events that can't happen to the lock.
    skips: &'static [&'static str],
    /// Events in which the original's requests depend on a race between two of its threads.
    races: &'static [Race],
    /// Events in which the lock differs, with the reason from its own card or the card of its component lock.
    differs: &'static [(&'static str, &'static str)],
    /// Differences that depend on timing.
    may_match: &'static [MayMatch],
    made_of: &'static str,
}

/// A step that our lock always repeats, but that the original repeats only sometimes.
pub struct Race {
    event: &'static str,
    /// Requests that are repeated.
    again: &'static [&'static str],
    /// Reason on the card.
    pub reason: &'static str,
}

impl Race {
    /// The lines when the race is lost, or `None` if no request is repeated.
    pub fn lost(&self, lines: &[String]) -> Option<Vec<String>> {
        let twice = self.again.repeat(2);
        let at = lines.windows(twice.len()).position(|of| of == twice)?;
        Some([&lines[..at], &lines[at + self.again.len()..]].concat())
    }
}

/// A difference that depends on when the original notices an event. Its requests end in one of two ways.
pub struct MayMatch {
    events: &'static [&'static str],
    /// Ending to compare and to show on the page.
    shown: &'static [&'static str],
    other: &'static [&'static str],
}

impl MayMatch {
    /// The original's lines with the ending to show.
    fn settled(&self, mut lines: Vec<String>) -> Vec<String> {
        let ends =
            |ending: &[&str]| lines.len() >= ending.len() && lines[lines.len() - ending.len()..] == *ending;
        // The longer ending may contain the shorter one.
        let is_shown = self.shown.len() > self.other.len() && ends(self.shown);
        if ends(self.other) && !is_shown {
            lines.truncate(lines.len() - self.other.len());
            lines.extend(self.shown.iter().map(|&line| line.to_owned()));
        }
        lines
    }
}

const TOKEN: &str = "A node found again after a lost reply is read once, for its fencing token";
const SESSION_GOES: &str = "Java's client replaces an expired session, and an acquire continues with a new node; here, the acquire fails, and the caller opens another session.";
const NO_SERVER: &str =
    "Java's client uses up its attempts while it has no connection; here, a request waits for a connection.";
const MKDIRS: &str = "Curator up to 5.4 checks for missing directories from the top downwards";
const OF_CURATOR: &[(&str, &str)] = &[
    ("create's reply lost", TOKEN),
    ("no server for 4 s", NO_SERVER),
    ("session expired", SESSION_GOES),
    ("no directory", MKDIRS),
];

const CURATOR: Pair = Pair {
    name: "curator-mutex",
    ours: "curator-mutex",
    driver: "curator",
    needs: "/usr/share/java/curator-recipes.jar",
    original: "InterProcessMutex",
    mode: Write,
    creates: 2,
    calm: Duration::from_millis(800),
    skips: &[],
    races: &[Race {
        event: "session moved",
        again: &["getChildren .", "getData with watch _c_<other>-lock-0"],
        reason: "A broken connection wakes a waiter twice: it lists twice, or only once if both events arrive before it starts.",
    }],
    differs: OF_CURATOR.split_at(3).0,
    may_match: &[],
    made_of: "curator-mutex",
};

const KAZOO: Pair = Pair {
    name: "kazoo",
    ours: "kazoo",
    driver: "kazoo",
    needs: "",
    original: "Lock",
    skips: &["creates exhausted"],
    calm: Duration::from_millis(1500),
    races: &[Race {
        event: "session moved",
        again: &["getChildren .", "getData with watch <other>__lock__0"],
        reason: "kazoo notifies a waiter of a broken connection twice, on two threads, so the waiter lists twice, or only once if both notifications arrive before it starts; here, it always lists twice.",
    }],
    differs: &[
        ("create's reply lost", TOKEN),
        (
            "session expired",
            "If the session expires during an acquire, kazoo's client opens another and queues a new node; here, the acquire fails, and the caller opens another session.",
        ),
    ],
    made_of: "kazoo",
    ..CURATOR
};

/// Like the mutex, with a writer ahead.
const READ_WRITE: Pair = Pair {
    ours: "curator-read-write",
    original: "InterProcessReadWriteLock",
    races: &[Race {
        again: &["getChildren .", "getData with watch _c_<other>-__WRIT__0"],
        ..CURATOR.races[0]
    }],
    ..CURATOR
};

const SEMAPHORE: Pair = Pair {
    name: "curator-semaphore",
    ours: "curator-semaphore",
    original: "InterProcessSemaphoreV2",
    // Whether Java checks its watch depends on when the event of its own delete arrives.
    skips: &["timed out", "timed out in back-off"],
    differs: OF_CURATOR,
    ..CURATOR
};

const LOST_REPLY: &str = "After a lost reply, the class continues until its next check of the flag, where polling lists once more. It then closes its connection, which deletes its node if a server is reachable. Here, the acquire fails at once, deletes its node if it has one, and ends the session.";
const LOGGED: &str = "The class only logs a failed release; here, the failure is reported.";
const STRANGER: &str = "If the name of a child is not four letters and a number, the class closes its session; here, that child is ignored.";
const LISTS_LAST: &str = "Its last watch fires on its own delete, and the class lists once more unless its connection is already closed; here, the release stops the listing.";
const NULL: &str = "If its create or list fails, the class prints the failure and continues: it waits for a node called `null`, which does not exist, so it enters alongside the holder.";
const NEVER: &str = "the article's code as printed, which admits no contender, not even the first";

/// Allowed difference: if a class cannot reach a server when it closes its connection, its node is left.
const CLOSES: MayMatch = MayMatch {
    events: &["create's reply lost", "list's reply lost", "watch's reply lost"],
    shown: &["-- failed"],
    other: &["-- failed; its node is left"],
};
const POLL: &str = "getChildren .";
/// Longer than `calm` and a client's reconnection together.
const POLL_INTERVAL_MS: u64 = 2500;

/// A class of an article. Its node names have no identifier, and its acquires cannot be cancelled.
const PRINTED: Pair = Pair {
    name: "polling, the class",
    ours: "polling",
    driver: "articles",
    original: "ZKLock",
    creates: 1,
    calm: Duration::from_millis(700),
    skips: &[
        "no server for 4 s",
        "creates exhausted",
        "timed out",
        "timed out in back-off",
        "watch's reply lost",
    ],
    races: &[],
    differs: &[
        ("create's reply lost", LOST_REPLY),
        ("create's request lost", LOST_REPLY),
        ("list's reply lost", LOST_REPLY),
        ("delete's reply lost", LOGGED),
        ("session moved", LOST_REPLY),
        ("foreign child", STRANGER),
    ],
    may_match: &[
        CLOSES,
        MayMatch {
            // The last list is sent unless the connection is still broken by then.
            events: &["create's reply lost", "create's request lost", "session moved"],
            shown: &[POLL, "-- failed"],
            other: &["-- failed"],
        },
    ],
    made_of: "",
    ..CURATOR
};

/// Events that only the articles' classes handle differently.
const OF_CLASSES: [&str; 2] = [event::DIRECTORY_MADE, event::PREDECESSOR_GONE];

pub const PAIRS: &[Pair] = &[
    CURATOR,
    KAZOO,
    Pair {
        name: "go-zookeeper",
        ours: "go-zookeeper",
        driver: "go",
        needs: "/usr/share/gocode/src/github.com/samuel/go-zookeeper",
        original: "Lock",
        creates: 3,
        skips: &["timed out", "timed out in back-off"],
        calm: Duration::from_millis(1500),
        differs: &[
            ("create's reply lost", TOKEN),
            ("creates exhausted", TOKEN),
            ("foreign child", "it fails on a child whose name does not end with `-` and a number"),
        ],
        races: &[],
        made_of: "",
        ..CURATOR
    },
    Pair {
        name: "apache-write-lock",
        ours: "apache-write-lock",
        driver: "zookeeper-recipes",
        needs: "/usr/share/java/zookeeper-recipes-lock.jar",
        original: "WriteLock",
        creates: 10,
        skips: &["timed out in back-off"],
        calm: Duration::from_millis(1500),
        differs: &[
            (
                "create's reply lost",
                "After the source finds its node again, it stores only the bare name, which never equals the owner's full path; here, the full path is stored, at the cost of one exists for the czxid.",
            ),
            (
                "session moved",
                "Each connection change adds another watcher to the source, and each watcher lists again when the predecessor is deleted; here, only one does.",
            ),
        ],
        races: &[],
        made_of: "",
        ..CURATOR
    },
    Pair { name: "curator-read-write, writing", ..READ_WRITE },
    Pair { name: "curator-read-write, reading", mode: Read, ..READ_WRITE },
    SEMAPHORE,
    Pair {
        name: "curator-semaphore-mutex",
        ours: "curator-semaphore-mutex",
        original: "InterProcessSemaphoreMutex",
        made_of: "curator-semaphore",
        ..SEMAPHORE
    },
    Pair { name: "kazoo-read-write, writing", ours: "kazoo-read-write", original: "ReadWrite", ..KAZOO },
    Pair {
        name: "kazoo-read-write, reading",
        ours: "kazoo-read-write",
        original: "ReadWrite",
        mode: Read,
        ..KAZOO
    },
    Pair {
        name: "curator-multi",
        ours: "curator-multi",
        original: "InterProcessMultiLock",
        // The original deletes one member's node in a background thread while it acquires the next member, in
        // any order.
        skips: &["creates exhausted"],
        differs: OF_CURATOR,
        ..CURATOR
    },
    PRINTED,
    Pair {
        name: "parent-watch, the class",
        ours: "parent-watch",
        original: "ZKLockTwo",
        skips: WATCHING,
        differs: &[
            ("nothing", LISTS_LAST),
            ("another holds", LISTS_LAST),
            ("create's reply lost", LOST_REPLY),
            ("list's reply lost", LOST_REPLY),
            ("watch's reply lost", LOST_REPLY),
            ("delete's reply lost", LOGGED),
            ("session moved", LISTS_LAST),
            ("foreign child", STRANGER),
            ("no directory", LISTS_LAST),
            (event::PREDECESSOR_GONE, LISTS_LAST),
        ],
        may_match: &[
            CLOSES,
            MayMatch {
                events: &[
                    "nothing",
                    "another holds",
                    "delete's reply lost",
                    "no directory",
                    event::PREDECESSOR_GONE,
                ],
                shown: &["getChildren with watch .", "-- released"],
                other: &["-- released"],
            },
            MayMatch {
                events: &["session moved"],
                shown: &["getChildren with watch .", "-- failed"],
                other: &["-- failed"],
            },
        ],
        ..PRINTED
    },
    Pair {
        name: "predecessor-watch, the class",
        ours: "predecessor-watch",
        original: "ZKLockThree",
        skips: WATCHING,
        differs: &[
            ("create's reply lost", LOST_REPLY),
            ("list's reply lost", LOST_REPLY),
            ("watch's reply lost", LOST_REPLY),
            ("delete's reply lost", LOGGED),
            ("foreign child", STRANGER),
        ],
        may_match: &[
            CLOSES,
            MayMatch {
                // The original's delete is sent unless the connection is still broken by then.
                events: &["watch's reply lost"],
                shown: &["-- failed"],
                other: &["delete temp1", "-- failed"],
            },
        ],
        ..PRINTED
    },
    Pair {
        name: "predecessor-watch-wait-limited",
        ours: "predecessor-watch-wait-limited",
        original: "ZooKeeperLock",
        skips: WATCHING,
        differs: &[
            ("create's reply lost", NULL),
            ("create's request lost", NULL),
            ("list's reply lost", NULL),
            (
                "watch's reply lost",
                "the class waits until its time limit or returns as if the limit had passed",
            ),
            ("delete's reply lost", "The class only prints a failed release; here, the failure is reported."),
        ],
        // The original's `exists` is sent unless the connection is still broken by then.
        may_match: &[
            MayMatch {
                events: &["create's reply lost"],
                shown: &["exists with watch null", "-- acquired", "-- the release failed; its node is left"],
                other: &["-- timed out; its node is left"],
            },
            MayMatch {
                events: &["create's request lost"],
                shown: &["exists with watch null", "-- acquired", "-- the release failed"],
                other: &["-- timed out"],
            },
        ],
        ..PRINTED
    },
    Pair {
        name: "local-then-remote",
        ours: "local-then-remote",
        original: "LocalLock",
        // The lock fails before any of these events can happen.
        skips: &[
            "no server for 4 s",
            "creates exhausted",
            "timed out",
            "timed out in back-off",
            "watch's reply lost",
            "delete's reply lost",
            "session moved",
            "session expired",
            "own node deleted",
            "foreign child",
            event::DIRECTORY_MADE,
            event::PREDECESSOR_GONE,
        ],
        differs: &[
            ("nothing", NEVER),
            ("another holds", NEVER),
            ("create's reply lost", NEVER),
            ("create's request lost", NEVER),
            ("list's reply lost", NEVER),
            ("no directory", "It also does not create a missing directory."),
        ],
        may_match: &[],
        ..PRINTED
    },
];

const WATCHING: &[&str] = &["no server for 4 s", "creates exhausted", "timed out", "timed out in back-off"];

/// One side of a pair: our lock, or the original.
pub enum Side {
    Ours,
    Original { entry: Box<Entry>, processes: Arc<Processes>, versions: String },
}

impl Pair {
    /// Parameters of our side. The original gets the supported subset.
    fn params(&self) -> Params {
        let mut params = Params::new();
        let interval = |millis| ParamValue::Duration(Duration::from_millis(millis));
        if self.driver == "articles" {
            let is_class = self.original.starts_with("ZKLock");
            let (name, millis) = match self.ours {
                "polling" => ("poll_interval", POLL_INTERVAL_MS),
                _ => ("flag_interval", 300),
            };
            let class = ParamValue::Word("article".into());
            let own = [("class", class), (name, interval(millis)), ("interval", interval(millis))];
            params.extend(own.into_iter().filter(|_| is_class).map(|(name, value)| (name.to_owned(), value)));
        }
        if self.driver == "curator" {
            params.insert("retry_times".into(), ParamValue::Count(1));
            params.insert("retry_sleep".into(), ParamValue::Duration(Duration::from_millis(300)));
        }
        match self.ours {
            "curator-semaphore" => params.insert("leases".into(), ParamValue::Count(1)),
            "curator-multi" => params.insert("members".into(), ParamValue::Count(2)),
            _ => None,
        };
        params
    }

    pub fn terms(&self) -> Terms {
        Terms {
            lock: self.ours,
            params: self.params(),
            mode: self.mode,
            creates: self.creates,
            comes: true,
            calm: self.calm,
            last_calm: match self.ours {
                "polling" => self.calm + Duration::from_millis(POLL_INTERVAL_MS),
                _ => self.calm,
            },
            gone: GONE,
            sets_limits_beforehand: true,
        }
    }

    /// Returns whether the event can happen to this pair.
    pub fn meets(&self, event: &Event) -> bool {
        let is_told_apart = self.driver == "articles" || !OF_CLASSES.contains(&event.name);
        is_told_apart && !self.skips.contains(&event.name)
    }

    /// Lines of one side to compare in this event. Only the last of several consecutive polls is included, because
    /// their number depends on timing.
    pub fn compared(&self, event: &str, lines: Vec<String>, is_original: bool) -> Vec<String> {
        let mut compared: Vec<String> = Vec::new();
        let mut follows_poll = false;
        for line in lines.into_iter().rev() {
            let is_poll = self.ours == "polling" && line == POLL;
            if is_poll && follows_poll {
                continue;
            }
            follows_poll = is_poll || (follows_poll && line.starts_with("-- "));
            compared.push(line);
        }
        compared.reverse();
        let settling = self.may_match.iter().filter(|may| is_original && may.events.contains(&event));
        settling.fold(compared, |lines, may| may.settled(lines))
    }

    /// Starts the original in its own process; `None` if this machine can't run it.
    pub fn original(&self) -> Option<Side> {
        let is_there =
            if self.driver == "kazoo" { foreign::python().is_some() } else { Path::new(self.needs).exists() };
        if !is_there {
            skip::skipped(format!("the driver `{}` cannot run here: no {}", self.driver, self.needs));
            return None;
        }
        let run = format!("{}/drivers/{}/run", env!("CARGO_MANIFEST_DIR"), self.driver);
        // Compiled files are cached here.
        let cache = format!("XDG_CACHE_HOME={}", env!("CARGO_TARGET_TMPDIR"));
        let command =
            DriverCommand { name: self.driver.into(), program: "env".into(), arguments: vec![cache, run] };
        let ready = Process::start_here(&command).unwrap().ready.clone();
        // Includes only the library's versions, not its runtime's.
        let libraries =
            ready.inside.iter().filter(|(name, _)| !["go", "java", "python"].contains(&name.as_str()));
        let versions: Vec<String> = libraries.map(|(name, version)| format!("{name} {version}")).collect();
        let driven = DrivenLocks::of(vec![Program { command, ready }]).unwrap();
        let (entry, lock) = driven.find_with_entry(&format!("{}:{}", self.driver, self.original)).unwrap();
        let processes = Arc::new(Processes::new(lock.wanted(&self.params(), 1)));
        Some(Side::Original { entry: Box::new(*entry), processes, versions: versions.join(", ") })
    }

    pub fn race(&self, event: &str) -> Option<&'static Race> {
        self.races.iter().find(|race| race.event == event)
    }

    /// Reason for a difference in this event.
    pub fn reason(&self, event: &str) -> Option<&'static str> {
        self.differs.iter().find(|(name, _)| *name == event).map(|(_, reason)| *reason)
    }

    /// Reasons for all differences and races.
    pub fn reasons(&self) -> impl Iterator<Item = &'static str> {
        let races = self.races.iter().map(|race| race.reason);
        self.differs.iter().map(|(_, reason)| *reason).chain(races)
    }

    /// Lock whose card contains this reason.
    pub fn sayer(&self, reason: &str) -> Option<&'static str> {
        let normalised = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let made_of_mutex = if self.driver == "curator" { "curator-mutex" } else { "" };
        let cards = [self.ours, self.made_of, made_of_mutex];
        let contains_reason = |name: &&str| {
            find(name).is_some_and(|entry| normalised(entry.card.details).contains(&normalised(reason)))
        };
        cards.into_iter().find(contains_reason)
    }
}

impl Side {
    pub fn is_original(&self) -> bool {
        matches!(self, Self::Original { .. })
    }

    /// Name and version of this side.
    pub fn described(&self, pair: &Pair) -> String {
        match self {
            Self::Ours => pair.ours.to_owned(),
            Self::Original { versions, .. } => format!("`{}` of {versions}", pair.original),
        }
    }

    pub async fn contender(&self, pair: &Pair, connect: &str, scene: &Scene, number: usize) -> Contender {
        let Self::Original { entry, processes, .. } = self else {
            return Contender::numbered(connect, (pair.ours, 1), &pair.params(), scene).await;
        };
        let target = sessions::target(connect);
        let link = processes.open(number, &target, SESSION, SESSION, &Arc::default()).await.unwrap();
        let config = LockConfig {
            path: scene.lock.clone(),
            params: Params::new(),
            contender: number,
            drivers: Some(Arc::clone(processes)),
        };
        let (session, trace) = scene.traced().await;
        Contender { lock: (entry.build)(&config), session: session.standing_for(link), trace }
    }
}
