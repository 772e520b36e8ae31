//! What names a session, and which sessions are this process's.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use zookeeper_client::{SessionId, SessionInfo};

/// Identifier and password of a session: who has them may speak for it.
#[derive(Debug, Clone)]
pub struct SessionKey(pub(super) SessionInfo);

impl SessionKey {
    pub fn id(&self) -> i64 {
        self.0.id().0
    }

    /// Of a session that another program has.
    pub fn of_another(id: i64, password: Vec<u8>) -> Self {
        Self(SessionInfo::new(SessionId(id), password))
    }
}

static OWN: Mutex<BTreeSet<i64>> = Mutex::new(BTreeSet::new());

/// From now on that session is one of this process.
pub fn note_own_session(session: i64) {
    OWN.lock().unwrap_or_else(PoisonError::into_inner).insert(session);
}

/// Whether this process has ever had that session, on any ensemble: what another one did, another program did.
pub fn is_own_session(session: i64) -> bool {
    OWN.lock().unwrap_or_else(PoisonError::into_inner).contains(&session)
}
