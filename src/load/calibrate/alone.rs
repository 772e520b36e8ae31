//! One request at a time: what each kind takes on a server that has nothing else to do.

use std::time::Duration;

use futures_util::future::{try_join, try_join_all};

use super::nodes::{DATA, Lists, Nodes};
use super::plan::Slice;
use super::sessions::{self, CalibrationSite, ServerSessions, timed};
use crate::record::{RawRequest, Timing};
use crate::words::clock;
use crate::words::measure::{Histogram, new_histogram};
use crate::world::zk::{EventKind, Failure, NodeKind, Op, Session};

const WITHIN: Duration = Duration::from_secs(10);

/// Where one request at a time is measured.
pub(super) struct On<'a> {
    pub(super) sessions: &'a ServerSessions,
    pub(super) site: &'a CalibrationSite,
    pub(super) lists: &'a Lists,
    pub(super) server: usize,
}

pub(super) struct Alone {
    /// By the order of [`RawRequest::ALL`].
    requests: Vec<Histogram>,
    pub(super) watch: Histogram,
    pub(super) session_open: Histogram,
    pub(super) session_close: Histogram,
}

impl Default for Alone {
    fn default() -> Self {
        Self {
            requests: RawRequest::ALL.map(|_| new_histogram()).into(),
            watch: new_histogram(),
            session_open: new_histogram(),
            session_close: new_histogram(),
        }
    }
}

impl Alone {
    pub(super) async fn measure(&mut self, on: &On<'_>, slice: Slice) -> Result<(), String> {
        let (session, other) = (on.sessions.session(on.server, 0), on.sessions.session(on.server, 1));
        let nodes = Nodes::of(&on.site.place, on.server);
        let mut created = Vec::new();
        for (request, samples) in RawRequest::ALL.into_iter().zip(&mut self.requests) {
            let list = on.lists.of(request);
            let measured = repeat(slice, samples, async || {
                one(session, request, &nodes, list.as_deref(), &mut created).await
            });
            on.sessions.at(on.server, request.name(), measured.await)?;
            if request == RawRequest::Delete {
                // As many as were created, save for those that there was no time for.
                let left = created.drain(..).map(|path| async move { session.delete(&path).await });
                on.sessions.at(on.server, "delete", try_join_all(left).await)?;
            }
        }
        let watched = repeat(slice, &mut self.watch, async || watched(session, other, &nodes.data).await);
        on.sessions.at(on.server, "watch", watched.await)?;
        on.sessions.at(on.server, "open a session", self.sessions(on, slice).await)
    }

    async fn sessions(&mut self, on: &On<'_>, slice: Slice) -> Result<(), Failure> {
        let target = on.site.single(&on.sessions.servers[on.server].address);
        let closing = &mut self.session_close;
        repeat(slice, &mut self.session_open, async || {
            let begun = clock::now();
            let session = sessions::open(&target, WITHIN).await?;
            let opened = clock::now();
            session.close(WITHIN).await;
            closing.saturating_record(clock::now().saturating_sub(opened));
            Ok(Some(opened.saturating_sub(begun)))
        })
        .await
    }

    pub(super) fn of(&self, request: RawRequest) -> Option<Timing> {
        let at = RawRequest::ALL.iter().position(|one| *one == request)?;
        Timing::of(&self.requests[at])
    }
}

/// Takes samples until the time is over, there are enough, or nothing is left to do; but at least one.
async fn repeat(
    slice: Slice,
    samples: &mut Histogram,
    mut sample: impl AsyncFnMut() -> Result<Option<u64>, Failure>,
) -> Result<(), Failure> {
    let end = clock::now() + clock::micros(slice.lasts);
    for _ in 0..slice.rounds {
        let Some(us) = sample().await? else { break };
        samples.saturating_record(us);
        if clock::now() >= end {
            break;
        }
    }
    Ok(())
}

/// One request; how long it took in microseconds, or `None` when there is nothing to delete.
async fn one(
    session: &Session,
    request: RawRequest,
    nodes: &Nodes,
    list: Option<&str>,
    created: &mut Vec<String>,
) -> Result<Option<u64>, Failure> {
    let Nodes { parent, data, other } = nodes;
    let us = match request {
        RawRequest::Create => {
            let path = format!("{parent}/n-");
            let (node, us) =
                timed(session, || session.create(&path, &[], NodeKind::EphemeralSequential)).await?;
            created.push(node.path);
            us
        }
        RawRequest::Delete => {
            let Some(path) = created.pop() else { return Ok(None) };
            timed(session, || session.delete(&path)).await?.1
        }
        RawRequest::Exists => timed(session, || session.exists(data)).await?.1,
        RawRequest::GetData => timed(session, || session.get_data(data)).await?.1,
        RawRequest::SetData => timed(session, || session.set_data(data, DATA)).await?.1,
        RawRequest::Multi => {
            let writes = [Op::SetData(data, DATA), Op::SetData(other, DATA)];
            timed(session, || session.multi(&writes)).await?.1
        }
        RawRequest::Sync => timed(session, || session.sync(data)).await?.1,
        RawRequest::GetChildren1 | RawRequest::GetChildren100 | RawRequest::GetChildren1000 => {
            let Some(path) = list else { return Ok(None) };
            timed(session, || session.get_children(path)).await?.1
        }
    };
    Ok(Some(us))
}

/// One change of a node that a session of the same server watches: from the call to the arrival of the event.
async fn watched(writer: &Session, watcher: &Session, path: &str) -> Result<Option<u64>, Failure> {
    let (_, mut watch) = watcher.get_data_and_watch(path).await?;
    let mut arrivals = Vec::new();
    watcher.take_arrivals(&mut arrivals);
    arrivals.clear();
    let begun = clock::now();
    let event = async {
        let kind = watch.changed().await;
        if kind == EventKind::SessionOver { Err(Failure::SessionExpired) } else { Ok(()) }
    };
    try_join(writer.set_data(path, DATA), event).await?;
    watcher.take_arrivals(&mut arrivals);
    Ok(arrivals.last().map(|arrival| arrival.at.saturating_sub(begun)))
}
