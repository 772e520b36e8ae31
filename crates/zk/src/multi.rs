//! Multiple writes in one transaction, and a check of the child counts in the replies, on which some locks rely.

use zookeeper_client::{Acls, Client, CreateMode, Error as ClientError, MultiWriteResult, Stat};

use super::session::{Created, Session};
use super::{Failure, sequence_of, wire};
use zklockbench_core::clock;
use zklockbench_core::measure::RequestKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op<'a> {
    Join { path: &'a str, data: &'a [u8] },
    Delete(&'a str),
    SetData(&'a str, &'a [u8]),
}

impl Op<'_> {
    fn bytes(&self, owned: bool) -> u64 {
        // Exclude the frame length and request header (12 bytes), which a multi contains only once.
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
    /// Applies all writes in one transaction, or none of them. Returns the created nodes in order.
    ///
    /// If an operation fails, the multi fails with the same error, which does not identify the operation.
    pub fn multi<'a>(
        &'a self,
        operations: &[Op<'a>],
    ) -> impl Future<Output = Result<Vec<Created>, Failure>> + use<'a> {
        let transacted = self.transact(operations);
        async move {
            let created = transacted.await?.into_iter().filter_map(created);
            // On every server version, the zxid in the reply's header is the multi's own.
            let czxid = self.0.client.last_reply_zxid();
            self.0.news.raise(czxid);
            Ok(created.map(|node| Created { czxid, ..node }).collect())
        }
    }

    /// Creates ephemeral sequential nodes and clears a directory's data, in one transaction. The
    /// directory's stat is from the same transaction, so its mzxid is the nodes' czxid on every server
    /// version. Returns the nodes in order and the directory's number of children, including the new nodes.
    /// The number is `None` if the reply contradicts itself.
    pub fn join_all<'a>(
        &'a self,
        joins: &[Op<'a>],
        directory: &'a str,
    ) -> impl Future<Output = Result<(Vec<Created>, Option<u32>), Failure>> + use<'a> {
        let operations: Vec<Op<'a>> = joins.iter().cloned().chain([Op::SetData(directory, &[])]).collect();
        let transacted = self.transact(&operations);
        async move {
            let mut results = transacted.await?;
            let Some(MultiWriteResult::SetData { stat }) = results.pop() else {
                // The client library should have detected this mismatch. The nodes may have been created.
                return Err(Failure::ConnectionLoss);
            };
            self.0.news.learn(stat.mzxid);
            let mut nodes: Vec<Created> = results.into_iter().filter_map(created).collect();
            let children = nodes.first().and_then(|first| counted(first, &stat));
            nodes.iter_mut().for_each(|node| node.czxid = stat.mzxid);
            Ok((nodes, children))
        }
    }

    /// Deletes a node and clears its directory's data, in one transaction. Returns the directory's
    /// number of remaining children.
    pub fn leave_and_count<'a>(
        &'a self,
        directory: &'a str,
        path: &'a str,
    ) -> impl Future<Output = Result<u32, Failure>> + use<'a> {
        let transacted = self.transact(&[Op::Delete(path), Op::SetData(directory, &[])]);
        async move {
            let Some(MultiWriteResult::SetData { stat }) = transacted.await?.pop() else {
                return Err(Failure::ConnectionLoss);
            };
            Ok(u32::try_from(stat.num_children).unwrap_or(0))
        }
    }

    /// Applies all writes in one transaction, or none of them. Returns one result per write.
    fn transact<'a>(
        &'a self,
        operations: &[Op<'a>],
    ) -> impl Future<Output = Result<Vec<MultiWriteResult>, Failure>> + use<'a> {
        let writes = operations.len();
        let bytes = wire::multi(writes) + operations.iter().map(|one| one.bytes(self.0.owned)).sum::<u64>();
        let named: Vec<String> = match self.0.observed.trace {
            Some(_) => operations.iter().map(ToString::to_string).collect(),
            None => Vec::new(),
        };
        let sent = self.sending(RequestKind::Multi, &named.join("; "), bytes);
        let deletions = operations.iter().filter_map(|operation| match operation {
            Op::Delete(path) => Some(*path),
            _ => None,
        });
        let deletions: Vec<&'a str> = deletions.inspect(|path| self.0.note_deletion(path)).collect();
        let commit = self.commit(operations);
        let reply = self.metered(sent, commit, |results| wire::multi_reply(results.iter().map(body)));
        async move {
            let results = reply.await.inspect_err(|failure| self.refused(failure, writes))?;
            let answered = clock::now();
            self.0.observed.count(answered, |counts| counts.written_by_multis += writes as u64);
            for path in deletions {
                if let Some(log) = self.0.log_of(path) {
                    log.deleted(path, sent.at, answered);
                }
            }
            for result in &results {
                let MultiWriteResult::Create { path, .. } = result else { continue };
                if let (Some(log), Some(number)) = (self.0.log_of(path), sequence_of(path)) {
                    log.created(number, sent.at, answered);
                }
            }
            Ok(results)
        }
    }

    /// Counts the extra bytes of the reply to a refused multi: an error code for each operation.
    fn refused(&self, failure: &Failure, operations: usize) {
        if failure.is_definite() {
            let bytes = wire::multi_refusal(operations);
            self.0.observed.count(clock::now(), |counts| counts.bytes_received += bytes);
        }
    }

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
            Ok(committed.await?)
        }
    }
}

fn body(result: &MultiWriteResult) -> u64 {
    match result {
        // Servers with ZOOKEEPER-4026 answer a create2 within a multi without a stat.
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

/// Returns the number of children in a directory's stat, if the stat is from the transaction that created the
/// node. If the server reports the node's czxid, the czxid must equal the stat's mzxid.
fn counted(joined: &Created, stat: &Stat) -> Option<u32> {
    let is_of_another = joined.czxid > 0 && joined.czxid != stat.mzxid;
    u32::try_from(stat.num_children).ok().filter(|children| *children > 0 && !is_of_another)
}

/// Number of joins to check: the first reply must count one node, the second reply two.
const JOINS: i32 = 2;

/// Joins an unused directory twice, with a multi that creates a node and sets the directory's data. Returns
/// the first contradiction in the replies, if any. The nodes are not deleted.
pub async fn why_not_counting(
    client: &Client,
    directory: &str,
    acls: Acls<'static>,
) -> Result<Option<String>, ClientError> {
    for join in 1..=JOINS {
        if let Some(wrong) = join_once(client, directory, acls, join).await? {
            return Ok(Some(wrong));
        }
    }
    Ok(None)
}

/// Returns the contradiction in the reply to join number `joined`, if any. `children` and `mzxid` are from
/// the multi's reply; `czxid` is from a later read of the node.
fn contradiction(joined: i32, children: i32, mzxid: i64, czxid: i64) -> Option<String> {
    if children != joined {
        return Some(format!(
            "the reply to the join reports a queue length of {children} instead of {joined}"
        ));
    }
    (mzxid != czxid).then(|| {
        format!(
            "the reply to the join reports that transaction 0x{mzxid:x} changed the directory, but the node \
             was created by 0x{czxid:x}"
        )
    })
}

async fn join_once(
    client: &Client,
    directory: &str,
    acls: Acls<'static>,
    joined: i32,
) -> Result<Option<String>, ClientError> {
    let mut writer = client.new_multi_writer();
    let path = format!("{directory}/n-");
    writer.add_create(&path, &[], &CreateMode::EphemeralSequential.with_acls(acls))?;
    writer.add_set_data(directory, &[], None)?;
    let committed = writer.commit().await?;
    let [
        MultiWriteResult::Create { path, .. },
        MultiWriteResult::SetData { stat: Stat { num_children, mzxid, .. } },
    ] = &committed[..]
    else {
        return Ok(Some("the reply to the multi does not match a create and a setData".into()));
    };
    let czxid = client.check_stat(path).await?.map_or(0, |found| found.czxid);
    Ok(contradiction(joined, *num_children, *mzxid, czxid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_reply_must_have_the_right_count_and_transaction() {
        let wrong = |children, mzxid| contradiction(2, children, mzxid, 7);
        assert_eq!(wrong(2, 7), None);
        assert_eq!(wrong(1, 7).unwrap(), "the reply to the join reports a queue length of 1 instead of 2");
        assert!(wrong(2, 6).unwrap().ends_with("but the node was created by 0x7"));
    }
}
