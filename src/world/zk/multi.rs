//! Several writes in one transaction: all or none.

use std::future::Future;

use zookeeper_client::{Acls, CreateMode, Error as ClientError, MultiWriteError, MultiWriteResult};

use super::outcome::Failure;
use super::session::{Created, Session};
use super::{sequence_of, wire};
use crate::words::clock;
use crate::words::measure::RequestKind;

/// One write of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op<'a> {
    Join {
        path: &'a str,
        data: &'a [u8],
    },
    Delete(&'a str),
    /// Overwrites a node's data, whatever its version.
    SetData(&'a str, &'a [u8]),
}

impl Op<'_> {
    fn bytes(&self, owned: bool) -> u64 {
        // A request's own frame and header, 12 bytes, are those of the multi.
        match self {
            Self::Join { path, data } => wire::create(path, data, owned) - 12,
            Self::Delete(path) => wire::delete(path) - 12,
            Self::SetData(path, data) => wire::set_data(path, data) - 12,
        }
    }
}

impl std::fmt::Display for Op<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Join { path, .. } => write!(f, "create {path}"),
            Self::Delete(path) => write!(f, "delete {path}"),
            Self::SetData(path, _) => write!(f, "setData {path}"),
        }
    }
}

impl Session {
    /// Does all writes in one transaction, or none of them. Returns the nodes that were created, in order.
    ///
    /// Servers that answer without a stat leave a created node's czxid unknown: it is -1 then.
    ///
    /// The failure of an operation is the failure of the whole; which operation it was is not told.
    pub fn multi<'a>(
        &'a self,
        operations: &'a [Op<'a>],
    ) -> impl Future<Output = Result<Vec<Created>, Failure>> + 'a {
        let bytes =
            wire::multi(operations.len()) + operations.iter().map(|one| one.bytes(self.0.owned)).sum::<u64>();
        let named: Vec<String> = match self.0.observed.trace {
            Some(_) => operations.iter().map(ToString::to_string).collect(),
            None => Vec::new(),
        };
        let sent = self.sending(RequestKind::Multi, &named.join("; "), bytes);
        for operation in operations {
            if let Op::Delete(path) = operation {
                self.0.note_deletion(path);
            }
        }
        let commit = self.commit(operations);
        let reply = self.metered(sent, commit, |results| wire::multi_reply(results.iter().map(body)));
        async move {
            let results = reply.await.inspect_err(|failure| self.refused(failure, operations.len()))?;
            let answered = clock::now();
            self.0.observed.sheet.borrow_mut().count(answered, |counts| {
                counts.written_by_multis += operations.len() as u64;
            });
            for operation in operations {
                if let Op::Delete(path) = operation
                    && let Some(log) = self.0.log_of(path)
                {
                    log.deleted(path, sent.at, answered);
                }
            }
            let created: Vec<Created> = results.into_iter().filter_map(created).collect();
            for node in &created {
                self.0.news.raise(node.czxid);
                if let (Some(log), Some(number)) = (self.0.log_of(&node.path), node.sequence) {
                    log.created(number, sent.at, answered);
                }
            }
            Ok(created)
        }
    }

    /// A refusal of the server names an error for each operation, so it is longer than that of one request.
    fn refused(&self, failure: &Failure, operations: usize) {
        if failure.is_definite() {
            let bytes = wire::multi_refusal(operations);
            self.0.observed.sheet.borrow_mut().count(clock::now(), |counts| counts.bytes_received += bytes);
        }
    }

    /// Hands the transaction to the client at once.
    fn commit(
        &self,
        operations: &[Op<'_>],
    ) -> impl Future<Output = Result<Vec<MultiWriteResult>, ClientError>> + use<'_> {
        let acls = if self.0.owned { Acls::creator_all() } else { Acls::anyone_all() };
        let mut writer = self.0.client.new_multi_writer();
        let added = operations.iter().try_for_each(|operation| match operation {
            Op::Join { path, data } => {
                writer.add_create(path, data, &CreateMode::EphemeralSequential.with_acls(acls))
            }
            Op::Delete(path) => writer.add_delete(path, None),
            Op::SetData(path, data) => writer.add_set_data(path, data, None),
        });
        let committed = writer.commit();
        async move {
            added?;
            committed.await.map_err(|error| match error {
                MultiWriteError::RequestFailed { source }
                | MultiWriteError::OperationFailed { source, .. } => source,
            })
        }
    }
}

/// Bytes of a result's body.
fn body(result: &MultiWriteResult) -> u64 {
    match result {
        // Servers answer a create2 within a multi as a create, without a stat (ZOOKEEPER-4026).
        MultiWriteResult::Create { path, stat } if stat.is_invalid() => wire::created_in_multi(path),
        MultiWriteResult::Create { path, .. } => wire::created_in_multi(path) + wire::STAT,
        MultiWriteResult::SetData { .. } => wire::STAT,
        _ => 0,
    }
}

fn created(result: MultiWriteResult) -> Option<Created> {
    match result {
        MultiWriteResult::Create { path, stat } => {
            Some(Created { sequence: sequence_of(&path), path, czxid: stat.czxid })
        }
        _ => None,
    }
}
