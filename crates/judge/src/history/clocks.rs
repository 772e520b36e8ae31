//! Times of events by clock: assigns clocks to processes, and checks that no clock goes backwards.

use std::collections::HashMap;

use zklockbench_record::history::{Event, LinePosition};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time in microseconds of its clock.
    pub t_us: u64,
    pub place: LinePosition,
    pub clock: usize,
}

/// Numbers for names, in the order of their first mention.
#[derive(Debug, Default)]
struct Names {
    numbers: HashMap<String, usize>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.numbers.len();
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

#[derive(Debug, Default)]
pub struct Clocks {
    processes: Names,
    clocks: Names,
    clock_names: Vec<String>,
    /// For each process: its name, its clock, its last event.
    known: Vec<(String, usize, Moment)>,
    /// For each clock: its latest time, and the line that had it.
    latest: Vec<(u64, LinePosition)>,
}

impl Clocks {
    /// The number of the process and the moment of an event.
    pub fn read(&mut self, event: &Event<'_>, place: LinePosition) -> Result<(usize, Moment), String> {
        let process = self.processes.number(event.process);
        let clock = self.clock_of(process, event);
        let moment = Moment { t_us: event.t_us, place, clock };
        match self.known.get_mut(process) {
            None => self.known.push((event.process.to_owned(), clock, moment)),
            Some((name, own, _)) if *own != clock => {
                let (before, now) = (&self.clock_names[*own], &self.clock_names[clock]);
                return Err(format!("process `{name}` switches from clock `{before}` to `{now}`"));
            }
            Some((_, _, last)) => *last = moment,
        }
        self.advance(moment)?;
        Ok((process, moment))
    }

    fn clock_of(&mut self, process: usize, event: &Event<'_>) -> usize {
        // Most processes name no clock; a lookup by process number saves a second lookup by name.
        match (event.clock, self.known.get(process)) {
            (None, Some((name, clock, _))) if self.clock_names[*clock] == *name => *clock,
            (named, _) => {
                let name = named.unwrap_or(event.process);
                let clock = self.clocks.number(name);
                if clock == self.clock_names.len() {
                    self.clock_names.push(name.to_owned());
                }
                clock
            }
        }
    }

    fn advance(&mut self, Moment { t_us, place, clock }: Moment) -> Result<(), String> {
        match self.latest.get_mut(clock) {
            None => self.latest.push((t_us, place)),
            Some((latest, before)) if *latest > t_us => {
                return Err(format!(
                    "time goes backwards on clock `{}`: {t_us} µs after {latest} µs in line {}; sort the lines of \
                     each clock by `t_us`",
                    self.clock_names[clock], before.line
                ));
            }
            Some(latest) => *latest = (t_us, place),
        }
        Ok(())
    }

    pub fn process(&self, process: usize) -> &str {
        &self.known[process].0
    }

    pub fn last_of(&self, process: usize) -> Moment {
        self.known[process].2
    }

    pub fn latest_us(&self, clock: usize) -> u64 {
        self.latest[clock].0
    }

    pub fn count(&self) -> usize {
        self.latest.len()
    }
}
