//! `refrain-sim control`: a table of simulated control planes.

use crate::arguments::ControlOptions;
use refrain_sim::control::{Costs, Figures, Phase, Shape, run};

/// Prints one row for each size and fan-out.
pub fn print(options: &ControlOptions) {
    let costs = Costs::default();
    println!("{costs:?}");
    println!(
        "| ranks | agents | fan-out | depth | part | time | messages | at the launcher | at an agent, at most | sent by the launcher | ranks told | agents busy | memory of the launcher | of an agent, at most |"
    );
    println!("|{}", "---|".repeat(14));
    for ranks in &options.ranks {
        for fan_out in &options.fan_out {
            let shape = Shape {
                ranks: *ranks,
                ranks_per_host: options.ranks_per_host,
                fan_out: (*fan_out > 0).then_some(*fan_out),
            };
            print_rows(*ranks, &run(shape, costs));
        }
    }
}

fn print_rows(ranks: u32, figures: &Figures) {
    let parts = [
        ("start", figures.start),
        ("death", figures.death),
        ("restart", figures.restart),
    ];
    for (name, part) in parts {
        let Phase {
            time_ns,
            messages,
            messages_launcher,
            messages_agent_most,
            bytes_launcher,
            ranks_told,
            agents_busy,
        } = part;
        println!(
            "| {ranks} | {} | {} | {} | {name} | {} | {messages} | {messages_launcher} | {messages_agent_most} | {} | {ranks_told} | {agents_busy} | {} | {} |",
            figures.agents,
            figures.fan_out,
            figures.depth,
            time(time_ns),
            length(bytes_launcher),
            length(figures.memory_launcher),
            length(figures.memory_agent_most),
        );
    }
}

fn time(ns: u64) -> String {
    match ns {
        ..1_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn length(bytes: u64) -> String {
    match bytes {
        ..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
