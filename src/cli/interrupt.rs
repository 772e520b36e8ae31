//! Ctrl-C, SIGTERM and a closed terminal: once to stop in order, twice to stop at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::output;
use crate::words::error::Error;

/// Listens for signals that ask the program to stop.
pub struct Interrupt {
    token: CancellationToken,
    signals: [Signal; 3],
}

impl Interrupt {
    /// Begins to listen; from now on the signals no longer end the process by themselves.
    pub fn listen() -> Result<Self, Error> {
        let listen = |kind| {
            signal(kind).map_err(|error| Error::environment(format!("cannot listen to signals: {error}")))
        };
        let signals = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        Ok(Self { token: CancellationToken::new(), signals })
    }

    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Cancels the token at the first signal and returns at the second.
    pub async fn insisted(&mut self) {
        self.next().await;
        self.token.cancel();
        output::note("Stopping. Press Ctrl-C again to abort.");
        self.next().await;
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
