//! Creates missing directories of a lock, in the same order as the original clients.

use zklockbench_zk::{Failure, NodeKind, Session};

/// Creates a directory and its missing ancestors: checks from the leaf upwards, then creates downwards.
///
/// Sources: Curator, `ZKPaths.mkdirs`; kazoo, `ensure_path`.
pub async fn make_from_leaf(session: &Session, directory: &str, kind: NodeKind) -> Result<(), Failure> {
    let mut missing = Vec::new();
    let mut path = directory;
    while !path.is_empty() && session.exists(path).await?.is_none() {
        missing.push(path);
        path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    for path in missing.into_iter().rev() {
        create_unless_there(session, path, &[], kind).await?;
    }
    Ok(())
}

/// Creates a directory and its missing ancestors from the top downwards, checking each one first.
///
/// Source: the Go client, `Lock.LockWithData`.
pub async fn make_from_top(session: &Session, directory: &str) -> Result<(), Failure> {
    let ends = directory.match_indices('/').map(|(end, _)| end).skip(1).chain([directory.len()]);
    for path in ends.map(|end| &directory[..end]) {
        make_directory(session, path).await?;
    }
    Ok(())
}

pub async fn make_directory(session: &Session, path: &str) -> Result<(), Failure> {
    match session.exists(path).await? {
        Some(_) => Ok(()),
        None => create_unless_there(session, path, &[], NodeKind::Persistent).await,
    }
}

pub async fn create_unless_there(
    session: &Session,
    path: &str,
    data: &[u8],
    kind: NodeKind,
) -> Result<(), Failure> {
    match session.create(path, data, kind).await {
        Ok(_) | Err(Failure::NodeExists) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Runs `what`; if the directory is missing, creates it and runs `what` again. The directory and its new
/// ancestors are container nodes, which the server removes when they are empty.
///
/// Source: Curator, `creatingParentContainersIfNeeded`.
pub async fn in_containers<T>(
    session: &Session,
    directory: &str,
    what: impl AsyncFn() -> Result<T, Failure>,
) -> Result<T, Failure> {
    match what().await {
        Err(Failure::NoNode) => {
            make_from_leaf(session, directory, NodeKind::Container).await?;
            what().await
        }
        ended => ended,
    }
}
