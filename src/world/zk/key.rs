//! What names a session, and which sessions are this process's.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use zookeeper_client::{SessionId, SessionInfo};

/// Identifier and password of a session: who has both may speak for it.
#[derive(Debug, Clone)]
pub struct SessionKey {
    pub(super) session: SessionInfo,
    pub(super) password: Password,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Password {
    /// This client's own session: it is right.
    Own,
    /// Told by a driver: it may be wrong.
    Told,
    NotTold,
}

impl SessionKey {
    pub(super) fn own(session: SessionInfo) -> Self {
        Self { session, password: Password::Own }
    }

    /// Of a driver's session, which may have told no password.
    pub fn of_another(id: i64, password: Option<Vec<u8>>) -> Self {
        let told = if password.is_some() { Password::Told } else { Password::NotTold };
        Self { session: SessionInfo::new(SessionId(id), password.unwrap_or_default()), password: told }
    }

    /// The same as another program would tell it.
    pub fn told(self) -> Self {
        Self { password: Password::Told, ..self }
    }

    pub fn id(&self) -> i64 {
        self.session.id().0
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
