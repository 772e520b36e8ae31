//! Sessions that are closed from outside, as the fault `expire` does, while their own clients reconnect at once.

use std::time::Duration;

use zklockbench_zk::{Failure, SessionKey, runtime};

use crate::support::ensemble::shared;
use crate::support::sessions::{behind_wire, on_scene, target};

/// Time limit for any step on a busy host. The sessions do not end by themselves meanwhile.
const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn expire_ends_a_session_even_if_its_client_reconnects_at_once() {
    on_scene(async |scene| {
        for _ in 0..20 {
            let session = scene.session().await;
            // Each attempt races with the client, and is repeated if the client wins.
            target(shared()).expire(session.key(), WITHIN).await.unwrap();
            runtime::timeout(WITHIN, session.over()).await.expect("the client was not notified");
        }
    });
}

#[test]
fn session_counts_as_ended_even_if_the_reply_to_its_close_is_lost() {
    behind_wire(async |scene, proxy| {
        let session = scene.session().await;
        // Given a connection to the server on which no reply arrives
        let target = target(&proxy.connect);
        proxy.mute();
        let key = session.key().told();
        let ending = runtime::spawn_local(async move { target.expire(key, WITHIN).await });
        runtime::timeout(WITHIN, session.over()).await.expect("the close did not arrive");
        // When the server answers the next attempt with "no such session"
        proxy.cut();
        proxy.mend();
        // Then the session counts as ended
        assert_eq!(ending.await, Ok(()));
    });
}

#[test]
fn wrong_password_does_not_end_the_session_of_another_program() {
    on_scene(async |scene| {
        let session = scene.session().await;
        let wrong = SessionKey::of_another(session.id(), Some(vec![7; 16]));
        let mut refused = target(shared()).expire(wrong.clone(), WITHIN).await;
        // The session's own client may reconnect and break this connection before the server checks the password.
        // Another refusal would then look as if the first attempt had closed the session.
        for _ in 0..10 {
            if refused.is_err() {
                break;
            }
            refused = target(shared()).expire(wrong.clone(), WITHIN).await;
        }
        assert!(matches!(refused, Err(Failure::Refused(_))), "{refused:?}");
        // The attempt breaks the client's connection, because the server checks the password only afterwards.
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(!session.is_over());
        session.exists(&scene.lock).await.unwrap();
    });
}
