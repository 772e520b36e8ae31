//! Connections without a session, to test the behaviour of client sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Requests a new session with a timeout of ten seconds.
pub const CONNECT_REQUEST: [u8; 49] = {
    let mut frame = [0; 49];
    frame[3] = 45;
    (frame[18], frame[19]) = (0x27, 0x10);
    frame[31] = 16;
    frame
};

/// Time limit for any reply.
const LONG: Duration = Duration::from_secs(60);
/// Silence after which no more data is expected.
const SILENCE: Duration = Duration::from_millis(200);

pub struct Raw(TcpStream);

impl Raw {
    pub fn connect(address: &str) -> Self {
        Self(TcpStream::connect(address).unwrap())
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Waits for data.
    pub fn hears(&mut self) {
        self.0.set_read_timeout(Some(LONG)).unwrap();
        assert_eq!(self.0.peek(&mut [0]).unwrap(), 1);
    }

    /// Returns whether neither data nor the end of the connection arrives for a while.
    pub fn is_silent(&mut self) -> bool {
        self.0.set_read_timeout(Some(SILENCE)).unwrap();
        let read = self.0.peek(&mut [0]);
        self.0.set_read_timeout(Some(LONG)).unwrap();
        read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Reads all data until the end of the connection.
    pub fn answer(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text
    }

    pub fn ends(&mut self) {
        self.0.set_read_timeout(Some(LONG)).unwrap();
        let read = self.0.read_to_end(&mut Vec::new());
        assert!(read.is_ok() || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    }

    /// Waits for the connection to end; returns whether it was reset.
    pub fn was_reset(&mut self) -> bool {
        self.0.set_read_timeout(Some(LONG)).unwrap();
        match self.0.read(&mut [0]) {
            Ok(count) => {
                assert_eq!(count, 0, "received data instead of the end of the connection");
                false
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                true
            }
        }
    }
}
