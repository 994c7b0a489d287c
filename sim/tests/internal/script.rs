//! The steps of the programs of a job.

use fastrand::Rng;

/// Bytes of a message that have a meaning.
pub const HEAD_BYTES: usize = 24;

/// A step of a program.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Begin(usize),
    Send { to: u32, bytes: usize },
    ReceiveAny,
    Test(usize),
    Wait(usize),
    WaitSends,
    Checkpoint,
}

/// The steps of all ranks, and the length of each exchange's values.
pub struct Script {
    pub steps: Vec<Vec<Step>>,
    pub exchange_bytes: Vec<usize>,
}

impl Script {
    pub fn new(seed: u64, ranks: u32) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut script = Self {
            steps: vec![Vec::new(); ranks as usize],
            exchange_bytes: Vec::new(),
        };
        for _ in 0..rng.usize(2..6) {
            script.add_round(&mut rng, ranks);
        }
        script
    }

    fn add_round(&mut self, rng: &mut Rng, ranks: u32) {
        let first = self.exchange_bytes.len();
        for _ in 0..rng.usize(1..5) {
            let bytes = if rng.u8(..4) == 0 { 40_000 } else { 200 };
            self.exchange_bytes.push(rng.usize(8..bytes));
        }
        let exchanges: Vec<usize> = (first..self.exchange_bytes.len()).collect();
        let mut received = vec![0; ranks as usize];
        for rank in 0..ranks {
            let mut begun: Vec<Step> = exchanges.iter().map(|of| Step::Begin(*of)).collect();
            for _ in 0..rng.usize(0..6) {
                let to = (rank + rng.u32(1..ranks)) % ranks;
                received[to as usize] += 1;
                let bytes = HEAD_BYTES + rng.usize(0..300);
                begun.push(Step::Send { to, bytes });
            }
            rng.shuffle(&mut begun);
            self.steps[rank as usize].extend(begun);
        }
        for (rank, received) in received.into_iter().enumerate() {
            let mut rest = vec![Step::ReceiveAny; received];
            for _ in 0..rng.usize(0..8) {
                rest.push(Step::Test(exchanges[rng.usize(0..exchanges.len())]));
            }
            rng.shuffle(&mut rest);
            let mut waits: Vec<Step> = exchanges.iter().map(|of| Step::Wait(*of)).collect();
            waits.push(Step::WaitSends);
            rng.shuffle(&mut waits);
            let steps = &mut self.steps[rank];
            steps.extend(rest);
            steps.extend(waits);
            if rng.bool() {
                steps.push(Step::Checkpoint);
            }
        }
    }
}
