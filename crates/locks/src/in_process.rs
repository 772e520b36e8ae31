//! State that the contenders of one process share for one lock. The state is dropped with its last owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use zklockbench_core::locked::locked;

/// States, by path and process.
pub struct InProcess<T>(Mutex<BTreeMap<(String, usize), Weak<T>>>);

impl<T: Default> InProcess<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the state of a process for a lock path, creating it on first use.
    pub fn of(&self, path: &str, process: usize) -> Arc<T> {
        let mut things = locked(&self.0);
        things.retain(|_, thing| thing.strong_count() > 0);
        let key = (path.to_owned(), process);
        if let Some(thing) = things.get(&key).and_then(Weak::upgrade) {
            return thing;
        }
        let thing = Arc::<T>::default();
        things.insert(key, Arc::downgrade(&thing));
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_shared_per_path_and_process_and_dropped_with_its_last_owner() {
        static THINGS: InProcess<Mutex<u8>> = InProcess::new();
        let one = THINGS.of("/lock", 0);
        *one.lock().unwrap() = 7;
        assert!(Arc::ptr_eq(&one, &THINGS.of("/lock", 0)));
        assert!(!Arc::ptr_eq(&one, &THINGS.of("/lock", 1)));
        assert!(!Arc::ptr_eq(&one, &THINGS.of("/other", 0)));
        drop(one);
        assert_eq!(*THINGS.of("/lock", 0).lock().unwrap(), 0);
    }
}
