//! Whether an ensemble tells what locks that join by count rely on.

use zookeeper_client::{
    Acls, Client, CreateMode, Error as ClientError, MultiWriteError, MultiWriteResult, Stat,
};

/// Two joins are enough: the first has to find itself alone, and the second has to find the first.
const JOINS: i32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DirectoryState {
    /// The directory's children and its last change, from the multi's reply.
    children: i32,
    mzxid: i64,
    /// The transaction that has created the node, as a look at it tells afterwards.
    czxid: i64,
}

/// Joins a directory that nobody else uses, twice, by a multi that creates a node and sets the directory's data. Returns what
/// was wrong with the replies, if anything was. The nodes stay.
pub async fn why_not_counting(
    client: &Client,
    directory: &str,
    acls: Acls<'static>,
) -> Result<Option<String>, ClientError> {
    for join in 1..=JOINS {
        let Some(told) = join_once(client, directory, acls).await? else {
            return Ok(Some("the reply to the multi is not one to a create and a setData".into()));
        };
        if let Some(wrong) = told.contradicts(join) {
            return Ok(Some(wrong));
        }
    }
    Ok(None)
}

impl DirectoryState {
    /// What is wrong with this, where so many nodes are there by then.
    fn contradicts(&self, joined: i32) -> Option<String> {
        if self.children != joined {
            let counted = self.children;
            return Some(format!("with {joined} in the queue, the reply to the join counts {counted}"));
        }
        (self.mzxid != self.czxid).then(|| {
            format!(
                "the directory was changed by transaction 0x{:x}, says the reply to the join, but its node was created by \
                 0x{:x}",
                self.mzxid, self.czxid
            )
        })
    }
}

async fn join_once(
    client: &Client,
    directory: &str,
    acls: Acls<'static>,
) -> Result<Option<DirectoryState>, ClientError> {
    let mut writer = client.new_multi_writer();
    let path = format!("{directory}/n-");
    writer.add_create(&path, &[], &CreateMode::EphemeralSequential.with_acls(acls))?;
    writer.add_set_data(directory, &[], None)?;
    let committed = writer.commit().await.map_err(|error| match error {
        MultiWriteError::RequestFailed { source } | MultiWriteError::OperationFailed { source, .. } => source,
    })?;
    let [
        MultiWriteResult::Create { path, .. },
        MultiWriteResult::SetData { stat: Stat { num_children, mzxid, .. } },
    ] = &committed[..]
    else {
        return Ok(None);
    };
    let czxid = client.check_stat(path).await?.map_or(0, |found| found.czxid);
    Ok(Some(DirectoryState { children: *num_children, mzxid: *mzxid, czxid }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_to_be_right_and_its_transaction_that_of_the_create() {
        let told = |children, mzxid| DirectoryState { children, mzxid, czxid: 7 }.contradicts(2);
        assert_eq!(told(2, 7), None);
        assert_eq!(told(1, 7).unwrap(), "with 2 in the queue, the reply to the join counts 1");
        assert!(told(2, 6).unwrap().ends_with("but its node was created by 0x7"));
    }
}
