//! Assigns clocks to processes, and checks that no clock goes backwards.

use std::collections::HashMap;

use zklockbench_record::history::{Event, LinePosition};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time in microseconds, on the event's clock.
    pub t_us: u64,
    pub place: LinePosition,
    pub clock: usize,
}

/// Numbers assigned to names in order of first use.
#[derive(Debug, Default)]
struct Names {
    numbers: HashMap<String, usize>,
    all: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.all.push(name.to_owned());
        *self.numbers.entry(name.to_owned()).or_insert(self.all.len() - 1)
    }
}

#[derive(Debug, Default)]
pub struct Clocks {
    processes: Names,
    clocks: Names,
    /// Clock and last event of each process.
    known: Vec<(usize, Moment)>,
    /// Latest time of each clock, and its line.
    latest: Vec<(u64, LinePosition)>,
}

impl Clocks {
    /// Returns the number of an event's process, and the event's time and line.
    pub fn read(&mut self, event: &Event<'_>, place: LinePosition) -> Result<(usize, Moment), String> {
        let process = self.processes.number(event.process);
        let clock = self.clock_of(process, event);
        let moment = Moment { t_us: event.t_us, place, clock };
        match self.known.get_mut(process) {
            None => self.known.push((clock, moment)),
            Some((own, _)) if *own != clock => {
                let (name, before, now) = (event.process, &self.clocks.all[*own], &self.clocks.all[clock]);
                return Err(format!("process `{name}` switches from clock `{before}` to `{now}`"));
            }
            Some((_, last)) => *last = moment,
        }
        self.advance(moment)?;
        Ok((process, moment))
    }

    fn clock_of(&mut self, process: usize, event: &Event<'_>) -> usize {
        // Most processes do not specify a clock, so a lookup by process number is enough.
        match (event.clock, self.known.get(process)) {
            (None, Some((clock, _))) if self.clocks.all[*clock] == event.process => *clock,
            (named, _) => self.clocks.number(named.unwrap_or(event.process)),
        }
    }

    fn advance(&mut self, Moment { t_us, place, clock }: Moment) -> Result<(), String> {
        match self.latest.get_mut(clock) {
            None => self.latest.push((t_us, place)),
            Some((latest, before)) if *latest > t_us => {
                return Err(format!(
                    "time goes backwards on clock `{}`: {t_us} µs after {latest} µs in line {}; sort the lines of \
                     each clock by `t_us`",
                    self.clocks.all[clock], before.line
                ));
            }
            Some(latest) => *latest = (t_us, place),
        }
        Ok(())
    }

    pub fn process(&self, process: usize) -> &str {
        &self.processes.all[process]
    }

    /// Name of a process's clock.
    pub fn clock_of_process(&self, process: usize) -> &str {
        &self.clocks.all[self.known[process].0]
    }

    pub fn last_of(&self, process: usize) -> Moment {
        self.known[process].1
    }

    pub fn latest_us(&self, clock: usize) -> u64 {
        self.latest[clock].0
    }

    pub fn count(&self) -> usize {
        self.latest.len()
    }
}
