//! Logs whose truth is known, in situations that look alike.

use super::*;

fn kazoo(of: u32) -> String {
    format!("/carts/1/{HEX}{:02x}__lock__{of:010}", of % 256)
}

fn kazoo_read(of: u32) -> String {
    format!("/carts/1/{HEX}{:02x}__rlock__{of:010}", of % 256)
}

fn go(of: u32) -> String {
    format!("/carts/1/_c_{HEX}{:02x}-lock-{of:010}", of % 256)
}

#[test]
fn lost_record_does_not_turn_timeouts_of_kazoo_and_go_into_acquisitions() {
    let counts = |held: String, waiting: fn(u32) -> String, has_reconnected: bool| {
        let mut story = Story::default();
        story.at(0).create(1, &held).create(9, "/other").lost();
        for of in 2..12 {
            story.create(2, &waiting(of)).reads(2, if has_reconnected { -2 } else { 2 });
            story.at(i64::from(of) * 100).delete(2, &waiting(of));
        }
        let family = story.at(2_000).delete(1, &held).family();
        (family.acquisitions, family.endings.gave_up, family.endings.unobserved)
    };
    let names: [(String, fn(u32) -> String); 3] = [(kazoo(1), kazoo), (kazoo(1), kazoo_read), (go(1), go)];
    for (held, waiting) in names {
        assert_eq!(counts(held, waiting, false), (1, 10, 0), "{}", waiting(2));
    }
    // kazoo numbers its requests from 1 after a reconnection, so the number of requests is unknown.
    assert_eq!(counts(kazoo(1), kazoo, true), (11, 0, 1));
}
