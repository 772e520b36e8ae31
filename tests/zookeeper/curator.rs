//! How many releases Java's Curator needs.

use crate::support::ensemble;
use crate::support::foreign::{self, Obedient};
use crate::support::sessions::on_scene;

#[test]
#[ignore = "long: tests Java's Curator, not this program"]
fn javas_mutex_is_free_after_as_many_releases_as_acquires() {
    on_scene(async |scene| {
        let mut java = foreign::java("CuratorObeys");
        java.args([ensemble::shared(), &scene.lock, "10000"]);
        let mut java = Obedient::ready(java).await;
        // Given a holder that has acquired the mutex three times and released it twice
        for command in ["acquire", "acquire", "acquire", "release", "release"] {
            java.tell(&format!("{command} a mutex"));
        }
        java.obeys("holds a mutex", "a holds true").await;
        // Then its node still exists
        assert_eq!(scene.nodes().await, 1);
        // And the third release deletes the node
        java.tell("release a mutex");
        java.obeys("holds a mutex", "a holds false").await;
        assert_eq!(scene.nodes().await, 0);
        // And a fourth release fails
        java.obeys("release a mutex", "a failed IllegalMonitorStateException").await;
    });
}
