//! Numbers of jobs on the command line.

/// Parses the number of a job.
pub fn parse(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16)
        .map_err(|error| format!("use the hexadecimal number of a job: {error}"))
}
