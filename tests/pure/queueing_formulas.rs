//! Exact formulas of queueing theory, in any consistent units. Sources: Kleinrock, *Queueing Systems*, volume 1;
//! for the machine repairman model, Reiser and Lavenberg 1980.

/// Mean wait in an M/G/1 queue, by Pollaczek and Khinchine. `square` is the mean square of the service time.
pub fn mg1(rate: f64, service: f64, square: f64) -> Option<f64> {
    let utilisation = rate * service;
    (utilisation < 1.0).then(|| rate * square / (2.0 * (1.0 - utilisation)))
}

/// Results of the machine repairman model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repairman {
    /// Mean time from the request to the end of the service.
    pub response: f64,
    pub throughput: f64,
}

/// Solves the machine repairman model by exact mean value analysis. Clients think, then a single server serves
/// them; both times are exponentially distributed.
pub fn machine_repairman(clients: usize, think: f64, service: f64) -> Repairman {
    let mut queue = 0.0;
    let mut found = Repairman { response: service, throughput: 0.0 };
    for count in 1..=clients {
        let response = service * (1.0 + queue);
        let throughput = count as f64 / (response + think);
        queue = throughput * response;
        found = Repairman { response, throughput };
    }
    found
}

#[test]
fn the_machine_repairman_formula_matches_known_values() {
    for (clients, response, throughput) in [(5, 1.52, 0.475), (10, 3.02, 0.832), (20, 11.0, 0.999)] {
        let found = machine_repairman(clients, 9.0, 1.0);
        assert!((found.response / response - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.throughput / throughput - 1.0).abs() < 0.01, "{found:?}");
    }
}
