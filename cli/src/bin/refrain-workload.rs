//! The workloads as a program; see `refrain_bench::workload`.

fn main() -> std::process::ExitCode {
    refrain_bench::workload::main()
}
