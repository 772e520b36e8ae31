use std::time::{Duration, Instant};

pub struct Deadline {
    deadline: Option<Instant>,
}

impl Deadline {
    pub fn never() -> Self {
        Self { deadline: None }
    }

    pub fn until(deadline: Instant) -> Self {
        Self { deadline: Some(deadline) }
    }

    pub fn elapsed(&self) -> bool {
        self.timeout().is_zero()
    }

    /// Remaining timeout.
    pub fn timeout(&self) -> Duration {
        match self.deadline.as_ref() {
            None => Duration::MAX,
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        }
    }
}
