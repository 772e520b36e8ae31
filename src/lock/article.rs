//! What the classes of the three-strategy comparison share beside the recipe: their flag, and their flaws.

use super::wait::FLAG_INTERVAL;
use super::{Acquired, LockConfig, QueueNode};
use crate::words::catalog::{Choice, Param, ParamKind};
use crate::world::zk::{Failure, Session, SessionState, sequence_of};

const ARTICLE: &str = "article";

/// Which implementation of the recipe it is, for locks that watch.
pub const WATCHING_CLASS: Param = Param {
    kind: ParamKind::Choice(&[
        Choice { word: "textbook", takes: &["wake", "while_holding", FLAG_INTERVAL.name] },
        Choice { word: ARTICLE, takes: &[FLAG_INTERVAL.name] },
    ]),
    ..CLASS
};

/// Which implementation of the recipe it is.
pub const CLASS: Param = Param {
    name: "class",
    kind: ParamKind::OneOf(&["textbook", ARTICLE]),
    default: "textbook",
    doc: "Whether it is the recipe, or the three-strategy article's class with its flaws.",
};

/// Whether the article's class was asked for.
pub fn is_asked_for(config: &LockConfig) -> bool {
    config.is(CLASS.name, ARTICLE)
}

/// Whether a list lets the class in: no number in it is lower than the own. It does not look for the own node, so an
/// empty list lets it in as well.
pub fn lets_in(node: &QueueNode, names: &[String]) -> bool {
    predecessor(node, names).is_none()
}

/// The name with the highest number below the own.
pub fn predecessor(node: &QueueNode, names: &[String]) -> Option<String> {
    let numbered = names.iter().filter_map(|name| Some((sequence_of(name)?, name)));
    let before = numbered.filter(|(number, _)| *number < node.sequence);
    before.max_by_key(|(number, _)| *number).map(|(_, name)| name.clone())
}

/// Does the class's work until its connection is lost for the first time, which the class takes for its end, although
/// its session may live on.
pub async fn until_disconnected<T>(
    session: &Session,
    work: impl Future<Output = Acquired<T>>,
) -> Acquired<T> {
    let mut states = session.states();
    states.state();
    let disconnected = async {
        loop {
            match states.changed().await {
                SessionState::SyncConnected => {}
                SessionState::Disconnected => return Failure::ConnectionLoss,
                state if state.is_terminated() => return Failure::SessionExpired,
                _ => {}
            }
        }
    };
    tokio::select! {
        biased;
        done = work => done,
        failure = disconnected => Err(failure.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[i64]) -> Vec<String> {
        numbers.iter().map(|number| format!("temp{number:010}")).collect()
    }

    #[test]
    fn the_class_enters_when_no_number_is_lower_even_without_a_node_of_its_own() {
        let node = QueueNode { path: "/lock/temp0000000007".into(), sequence: 7, czxid: 0 };
        assert!(lets_in(&node, &names(&[9, 7])));
        assert!(lets_in(&node, &names(&[8])), "its own node is not looked for");
        assert!(lets_in(&node, &[]), "an empty list counts as held");
        assert!(!lets_in(&node, &names(&[9, 3, 5, 7])));
        assert_eq!(predecessor(&node, &names(&[9, 3, 5, 7])).as_deref(), Some("temp0000000005"));
    }
}
