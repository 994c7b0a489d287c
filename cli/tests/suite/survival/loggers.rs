//! Event loggers that are killed, alone and with ranks.

use super::batch::Batch;

const CHAOS: &str = "chaos --operations 3000 --bytes-max 20000 --patience 30";

/// One logger: it is restarted with the events on its disk, and ranks send the missing ones again.
// REC-2
#[test]
fn an_event_logger_dies() {
    let mut batch = Batch::new("an event logger");
    for seconds in ["0.02", "0.05", "0.08", "0.12", "0.2"] {
        let options = format!("--kill eventlogger.0@{seconds},1@clock=500");
        batch.survives(3, &options, CHAOS);
        let options = format!("{options} --event-replicas 3 --protocol pessimist-classic");
        batch.survives(3, &options, CHAOS);
    }
    batch.finish(10);
}

/// With replicas the other loggers have the events that the rank needs, whether or not a logger is
/// down when the rank asks.
// REC-2 REC-6
#[test]
fn an_event_logger_dies_with_a_rank() {
    let mut batch = Batch::new("an event logger with a rank");
    for milliseconds in [20, 35, 50, 65, 80, 100] {
        let at = f64::from(milliseconds) / 1e3;
        // If the job is over before that, one rank has died all the same.
        let clock = 6 * milliseconds;
        let kills = format!("eventlogger.1@{at},0@{at},2@clock={clock}");
        let options = format!("--event-replicas 3 --kill {kills}");
        batch.survives(3, &options, CHAOS);
    }
    batch.finish(6);
}
