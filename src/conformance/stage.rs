//! What the checks of one lock share: the driver's process, its contenders, and the ensemble as it is without the driver.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::conversation::{Answered, Conversation, monotonic};
use super::{Trouble, wrong};
use zklockbench_core::clock::{micros, millis};
use zklockbench_core::units::parse_duration;
use zklockbench_ensemble::proxy::Proxy;
use zklockbench_locks::driver::DriverCommand;
use zklockbench_locks::driver::protocol::{
    Abilities, How, Ready, TokenKind, WantedMode, password_bytes, session_id,
};
use zklockbench_zk::{Failure, Observed, Onlooker, Session, SessionKey, Target, reactor};

#[derive(Debug, Clone)]
pub struct CheckSite {
    pub target: Target,
    /// The servers' addresses, before which the suite's own proxy can stand.
    pub servers: Vec<String>,
    /// A node that is there and empty: all locks are below it.
    pub place: String,
    /// How many contenders want a lock at once where that is all there is to it.
    pub contenders: usize,
}

/// What a session is asked for, unless it is about that.
const SESSION: Duration = Duration::from_secs(10);
/// What needs no waiting for others has to be answered within that.
pub(super) const SOON: Duration = Duration::from_secs(10);
/// What a library does behind its caller's back is done by then.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);

/// A contender, and the session that its driver has told of.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckedContender {
    pub c: usize,
    /// Nothing where its locks are no ZooKeeper's.
    pub session: Option<i64>,
    /// The session's timeout, as it was told or, where it was not, asked for.
    pub granted: Duration,
    pub tells_granted: bool,
}

/// An ephemeral node below a lock's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub path: String,
    pub owner: i64,
    pub czxid: i64,
}

pub(super) struct Stage<'a> {
    pub site: &'a CheckSite,
    pub lock: &'a str,
    pub abilities: Abilities,
    pub declared: Value,
    pub is_zookeeper: bool,
    command: &'a DriverCommand,
    process: Option<Conversation>,
    look: Onlooker,
    contenders: usize,
    /// Of the sessions whose password was told.
    keys: BTreeMap<usize, SessionKey>,
    made: usize,
    /// The locks that it has made, but for those that a check has left as it failed: what is in one is told by that check.
    pub places: Vec<String>,
}

/// A session that looks at what drivers do, and counts nothing.
pub(super) async fn looker(target: &Target, timeout: Duration) -> Result<Session, Failure> {
    target.open(timeout, SOON, Observed::by_nobody()).await
}

impl<'a> Stage<'a> {
    pub async fn set(
        site: &'a CheckSite,
        command: &'a DriverCommand,
        ready: &Ready,
        declared: &Value,
        lock: &'a str,
    ) -> Result<Self, Failure> {
        let look = Onlooker::by(looker(&site.target, 2 * SESSION).await?);
        Ok(Self {
            site,
            lock,
            abilities: ready.locks[lock].clone(),
            declared: declared.clone(),
            is_zookeeper: ready.system == "zookeeper",
            command,
            process: None,
            look,
            contenders: 0,
            keys: BTreeMap::new(),
            made: 0,
            places: Vec::new(),
        })
    }

    /// The process, started anew where the last one has been given up.
    pub async fn driver(&mut self) -> Result<&mut Conversation, Trouble> {
        if self.process.is_none() {
            self.process = Some(Conversation::start(self.command).await.map_err(Trouble::Wrong)?);
        }
        match &mut self.process {
            Some(process) => Ok(process),
            None => wrong("has not been started"),
        }
    }

    /// Whatever it would say from now on is not heard.
    pub fn give_up(&mut self) {
        self.process = None;
    }

    pub async fn place(&mut self) -> Result<String, Trouble> {
        let path = format!("{}/{}-{}", self.site.place, self.lock, self.made);
        self.made += 1;
        let made = self.look.create(&path).await;
        made.map_err(|failure| Trouble::Elsewhere(format!("{path}: {failure}")))?;
        self.places.push(path.clone());
        Ok(path)
    }

    pub async fn open(&mut self) -> Result<CheckedContender, Trouble> {
        self.open_with(&self.site.target.connect.clone(), SESSION, &[]).await
    }

    pub async fn two(&mut self) -> Result<(CheckedContender, CheckedContender), Trouble> {
        Ok((self.open().await?, self.open().await?))
    }

    /// Opens a session for a new contender; values for parameters go before what is the default.
    pub async fn open_with(
        &mut self,
        connect: &str,
        session: Duration,
        more: &[(&str, Value)],
    ) -> Result<CheckedContender, Trouble> {
        let c = self.contenders;
        self.contenders += 1;
        let mut parameters = self.parameters();
        parameters.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let mut open = json!({ "t": "open", "c": c, "connect": connect, "session_ms": millis(session),
                               "lock": self.lock, "parameters": parameters });
        let access = &self.site.target.access;
        if let Some(identity) = &access.digest {
            open["auth"] = identity.told().into();
        }
        if let Some(tls) = &access.tls {
            open["tls"] = json!({ "ca": tls.files.ca });
            if let (Some(cert), Some(key)) = (&tls.files.cert, &tls.files.key) {
                open["tls"]["cert"] = json!(cert);
                open["tls"]["key"] = json!(key);
            }
        }
        let is_zookeeper = self.is_zookeeper;
        let driver = self.driver().await?;
        let id = driver.ask("`open`", open);
        let answer = driver.answer(id, session.min(2 * SOON) + SOON).await?.answer;
        let Some(done) = answer.ok else { return wrong(format!("`open` failed: {}", said(&answer)))? };
        let told = done.session.as_deref().and_then(session_id);
        let session_told = match (told, is_zookeeper) {
            (Some(id), true) if id != 0 => Some(id),
            (_, true) => return wrong("`open` told no session id: `0x` and hexadecimal digits"),
            (_, false) => None,
        };
        if let (Some(id), Some(told)) = (session_told, done.password.as_deref()) {
            let Some(told) = password_bytes(told) else {
                return wrong("`open` told a password that is not pairs of hexadecimal digits");
            };
            self.keys.insert(c, SessionKey::of_another(id, Some(told)));
        }
        // What is done by it is no interference.
        session_told.into_iter().for_each(zklockbench_zk::note_own_session);
        let granted = done.session_ms.map_or(session, Duration::from_millis);
        Ok(CheckedContender { c, session: session_told, granted, tells_granted: done.session_ms.is_some() })
    }

    pub fn key_of(&self, who: CheckedContender) -> Option<SessionKey> {
        self.keys.get(&who.c).cloned()
    }

    fn parameters(&self) -> Map<String, Value> {
        let value = |default: &Value| match default.as_str().map(parse_duration) {
            Some(Ok(time)) => millis(time).into(),
            _ => default.clone(),
        };
        let all = self.abilities.parameters.iter();
        let mut values: Map<String, Value> =
            all.map(|(name, parameter)| (name.clone(), value(&parameter.default))).collect();
        // What one may have, two may not, unless it is about that.
        if let Some(leases) = &self.abilities.leases {
            values.insert(leases.clone(), 1.into());
        }
        values
    }

    pub async fn asks(
        &mut self,
        who: CheckedContender,
        on: &str,
        mode: WantedMode,
        timeout: Option<Duration>,
    ) -> Result<u64, Trouble> {
        let mode = if mode == WantedMode::Read { "read" } else { "write" };
        let mut acquire = json!({ "t": "acquire", "c": who.c, "on": on, "mode": mode });
        if let Some(timeout) = timeout {
            acquire["timeout_ms"] = millis(timeout).into();
        }
        Ok(self.driver().await?.ask("`acquire`", acquire))
    }

    /// Takes a lock that is free. Nobody waits for it, so that a node of another's is not taken for the holder's.
    pub async fn takes(&mut self, who: CheckedContender, on: &str) -> Result<(), Trouble> {
        let id = self.asks(who, on, WantedMode::Write, None).await?;
        let grant = self.granted(id, SOON).await?;
        self.is_held(who, on, Some(&grant)).await
    }

    pub async fn granted(&mut self, id: u64, within: Duration) -> Result<Answered, Trouble> {
        was_done("`acquire`", self.driver().await?.answer(id, within).await?)
    }

    pub async fn releases(&mut self, who: CheckedContender, on: &str) -> Result<Answered, Trouble> {
        let request = json!({ "t": "release", "c": who.c, "on": on });
        let driver = self.driver().await?;
        let id = driver.ask("`release`", request);
        was_done("`release`", driver.answer(id, SOON).await?)
    }

    pub async fn closes(&mut self, who: CheckedContender) -> Result<(), Trouble> {
        let driver = self.driver().await?;
        let id = driver.ask("`close`", json!({ "t": "close", "c": who.c }));
        was_done("`close`", driver.answer(id, SOON).await?).map(drop)
    }

    /// The end of a check: all is answered, nothing comes that was not asked for, and the contenders go.
    pub async fn done(&mut self, contenders: &[CheckedContender]) -> Result<(), Trouble> {
        self.driver().await?.settle().await?;
        for one in contenders {
            self.closes(*one).await?;
        }
        Ok(())
    }

    pub async fn nodes(&self, on: &str) -> Result<Vec<Node>, Trouble> {
        let elsewhere = |failure: Failure| Trouble::Elsewhere(failure.to_string());
        let now = self.look.caught_up().await.map_err(elsewhere)?;
        let (mut found, mut paths) = (Vec::new(), vec![on.to_owned()]);
        while let Some(path) = paths.pop() {
            let names = match now.children(&path).await {
                Ok(names) => names,
                Err(Failure::NoNode) => continue,
                Err(failure) => return Err(elsewhere(failure)),
            };
            for name in &names {
                let path = format!("{path}/{name}");
                match now.stat(&path).await.map_err(elsewhere)? {
                    Some(stat) if stat.owner != 0 => {
                        found.push(Node { path, owner: stat.owner, czxid: stat.czxid });
                    }
                    Some(_) => paths.push(path),
                    None => {}
                }
            }
        }
        Ok(found)
    }

    /// A lock that was granted has a node of its contender's, and that is the one which it tells of.
    pub async fn is_held(
        &self,
        who: CheckedContender,
        on: &str,
        grant: Option<&Answered>,
    ) -> Result<(), Trouble> {
        let Some(session) = who.session else { return Ok(()) };
        let nodes = self.nodes(on).await?;
        if !nodes.iter().any(|node| node.owner == session) {
            let owners: Vec<String> = nodes.iter().map(|node| format!("{:#x}", node.owner)).collect();
            let others = match owners.as_slice() {
                [] => "there is none at all".to_owned(),
                some => format!("those that are there belong to {}", some.join(" and ")),
            };
            return wrong(format!(
                "contender {} was granted the lock, and its session {session:#x} has no node in it: {others}",
                who.c
            ));
        }
        let done = grant.and_then(|grant| grant.answer.ok.as_ref());
        let told = done.and_then(|done| Some((done.node.as_deref()?, done.token.as_ref()?)));
        let Some((name, token)) = told.filter(|_| self.abilities.token == TokenKind::Czxid) else {
            return Ok(());
        };
        let path = if name.starts_with('/') { name.to_owned() } else { format!("{on}/{name}") };
        match nodes.iter().find(|node| node.path == path) {
            Some(node) if node.owner != session => {
                let owner = node.owner;
                wrong(format!(
                    "the grant tells of {path}, which belongs to the session {owner:#x}, not to {session:#x}"
                ))
            }
            Some(node) if token.number() == Some(node.czxid) => Ok(()),
            Some(node) => wrong(format!("the token is {token:?}, and {path} has the czxid {}", node.czxid)),
            None => wrong(format!("the grant tells of {path}, which is not there")),
        }
    }

    /// Waits until a contender has a node in the lock; false where it gets none.
    pub async fn queues(&self, who: CheckedContender, on: &str) -> Result<bool, Trouble> {
        self.until(on, |nodes| nodes.iter().any(|node| Some(node.owner) == who.session)).await
    }

    pub async fn leaves(&self, who: CheckedContender, on: &str) -> Result<(), Trouble> {
        if self.until(on, |nodes| nodes.iter().all(|node| Some(node.owner) != who.session)).await? {
            return Ok(());
        }
        wrong(format!(
            "contender {} has no lock and waits for none, and {} s later its session still has a node in it",
            who.c,
            SETTLES_WITHIN.as_secs()
        ))
    }

    async fn until(&self, on: &str, fits: impl Fn(&[Node]) -> bool) -> Result<bool, Trouble> {
        let until = monotonic() + micros(SETTLES_WITHIN);
        loop {
            if fits(&self.nodes(on).await?) {
                return Ok(true);
            }
            if monotonic() >= until {
                return Ok(false);
            }
            reactor::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The nodes in all locks that this stage has made so far.
    pub async fn all_nodes(&self) -> Result<Vec<Node>, Trouble> {
        let mut all = Vec::new();
        for place in &self.places {
            all.extend(self.nodes(place).await?);
        }
        Ok(all)
    }

    pub fn has_timeouts(&self) -> bool {
        self.abilities.timeout != How::None
    }

    pub fn can_cancel(&self) -> bool {
        self.abilities.cancel != How::None
    }

    pub fn proxy(&self) -> Result<Proxy, Trouble> {
        Proxy::before(&self.site.servers).map_err(|error| Trouble::Elsewhere(error.to_string()))
    }

    pub fn by_way_of(&self, proxy: &Proxy, client: usize) -> Result<String, Trouble> {
        let servers = proxy.connect_for(client).map_err(|error| Trouble::Elsewhere(error.to_string()))?;
        Ok(self.site.target.on(&servers).connect)
    }
}

pub(super) fn was_done(asked: &str, answered: Answered) -> Result<Answered, Trouble> {
    match answered.answer.err {
        Some(_) => wrong(format!("{asked} failed: {}", said(&answered.answer))),
        None => Ok(answered),
    }
}

/// An answer that it was not done, for people.
pub(super) fn said(answer: &zklockbench_locks::driver::protocol::Answer) -> String {
    let word = answer.err.as_deref().unwrap_or("ok");
    answer.message.as_ref().map_or_else(|| word.to_owned(), |message| format!("{word}: {message}"))
}
