//! A session is ended from outside, as the fault `expire` does, while its own client comes back at once.

use std::time::Duration;

use zklockbench_zk::{Access, Failure, SessionKey, Target, reactor};

use crate::support::ensemble::shared;
use crate::support::sessions::{behind_wire, on_scene};

const AT_ONCE: Duration = Duration::from_secs(5);

fn target() -> Target {
    Target { connect: shared().into(), access: Access::default() }
}

#[test]
fn a_session_is_ended_though_its_own_client_takes_the_connection_back_at_once() {
    on_scene(async |scene| {
        for _ in 0..20 {
            let session = scene.session().await;
            // Each try races with the client, and is made again where it loses.
            target().expire(session.key(), 4 * AT_ONCE).await.unwrap();
            reactor::timeout(AT_ONCE, session.over()).await.expect("its client is told");
        }
    });
}

#[test]
fn a_session_that_is_closed_by_a_request_whose_answer_is_lost_was_not_refused() {
    behind_wire(async |scene, proxy| {
        let session = scene.session().await;
        // Given a way to the server by which no answer comes back
        let target = Target { connect: proxy.connect.clone(), access: Access::default() };
        proxy.mute();
        let key = session.key().told();
        let ending = reactor::spawn_local(async move { target.expire(key, 2 * AT_ONCE).await });
        reactor::timeout(AT_ONCE, session.over()).await.expect("the close arrives");
        // When the next try is answered that there is no such session
        proxy.cut();
        proxy.mend();
        // Then it is over as it should be
        assert_eq!(ending.await, Ok(()));
    });
}

#[test]
fn a_session_of_another_program_is_not_ended_by_a_wrong_password() {
    on_scene(async |scene| {
        let session = scene.session().await;
        let wrong = SessionKey::of_another(session.id(), Some(vec![7; 16]));
        let mut refused = target().expire(wrong.clone(), AT_ONCE).await;
        // Its own client can break the connection by coming back before the password is looked at. What is refused after that
        // is taken for a session that the first try has closed.
        for _ in 0..10 {
            if refused.is_err() {
                break;
            }
            refused = target().expire(wrong.clone(), AT_ONCE).await;
        }
        assert!(matches!(refused, Err(Failure::Refused(_))), "{refused:?}");
        // Its connection was broken, as the server looks at the password later.
        reactor::sleep(Duration::from_secs(1)).await;
        assert!(!session.is_over());
        session.exists(&scene.lock).await.unwrap();
    });
}
