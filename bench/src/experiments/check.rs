//! Checks the output of `refrain bench EXPERIMENT --json`, for `ci/test`: it is complete, and
//! ranks died.

use crate::error::BenchError;
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of the check.
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    /// The file to check.
    file: PathBuf,
    /// The experiment that wrote the file.
    experiment: String,
}

/// Runs the check and prints the result.
///
/// # Errors
/// If the file cannot be read.
pub fn check(arguments: &CheckArguments) -> miette::Result<ExitCode> {
    let CheckArguments { file, experiment } = arguments;
    let text =
        std::fs::read_to_string(file).map_err(BenchError::system("cannot read the output"))?;
    let result = read(&text, experiment);
    match &result {
        Ok(runs) => println!("note: {experiment}: {runs} runs"),
        Err(problem) => println!("wrong: {experiment}: {problem}"),
    }
    Ok(ExitCode::from(u8::from(result.is_err())))
}

fn read(text: &str, experiment: &str) -> Result<usize, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if document["experiment"] != experiment {
        return Err(format!("the file is of {}", document["experiment"]));
    }
    if document["machine"].as_str().is_none_or(str::is_empty) {
        return Err("the machine is missing".into());
    }
    let runs = list(&document["runs"])?;
    let settings = &document["settings"];
    match experiment {
        "re-execution" => re_execution(settings, runs),
        "faults" => faults(settings, runs),
        "rollback" => rollback(settings, runs),
        "sets" => sets(settings, runs),
        "survivors" => survivors(settings, runs),
        "collectives" => collectives(settings, runs),
        "mpi" => mpi(settings, runs),
        "family" => family(settings, runs),
        _ => Err("there is no such experiment".into()),
    }?;
    Ok(runs.len())
}

fn list(value: &Value) -> Result<&Vec<Value>, String> {
    let list = value.as_array().filter(|list| !list.is_empty());
    list.ok_or_else(|| "nothing was measured".to_owned())
}

fn find(runs: &[Value], is_meant: impl Fn(&Value) -> bool, name: String) -> Result<&Value, String> {
    let mut meant = runs.iter().filter(|run| is_meant(run));
    meant.next().ok_or_else(|| format!("{name}: not measured"))
}

fn count(value: &Value, name: &str) -> Result<u64, String> {
    value[name]
        .as_u64()
        .ok_or_else(|| format!("a {name} is not a count: {}", value[name]))
}

/// A value that must be above 0.
fn positive(value: &Value, name: &str) -> Result<f64, String> {
    value[name]
        .as_f64()
        .filter(|number| *number > 0.0)
        .ok_or_else(|| format!("a {name} is not above 0: {}", value[name]))
}

/// Checks that every size was measured with every number of ranks that replay.
fn re_execution(settings: &Value, runs: &[Value]) -> Result<(), String> {
    for size in list(&settings["sizes"])? {
        for again in 0..=count(settings, "ranks")? {
            let is_meant = |run: &Value| run["bytes"] == *size && run["again"] == again;
            let run = find(runs, is_meant, format!("{size} bytes, {again} again"))?;
            positive(run, "first_s")?;
            positive(run, "wall_s")?;
            if again > 0 {
                positive(run, "again_s")?;
            } else if !run["again_s"].is_null() {
                return Err("a rank replayed without a death".into());
            }
        }
    }
    Ok(())
}

/// Checks that every number of faults was measured, and that ranks died.
fn faults(settings: &Value, runs: &[Value]) -> Result<(), String> {
    let mut deaths = 0;
    for faults in 0..=count(settings, "faults")? {
        let run = find(
            runs,
            |run| run["faults"] == faults,
            format!("{faults} faults"),
        )?;
        positive(run, "wall_s")?;
        positive(run, "relative")?;
        if count(run, "deaths")? > faults {
            return Err("more ranks died than were killed".into());
        }
        deaths += count(run, "deaths")?;
    }
    match deaths {
        0 => Err("no rank died".into()),
        _ => Ok(()),
    }
}

/// Checks that each number of ranks was measured with sets and without, and took checkpoints.
fn sets(settings: &Value, runs: &[Value]) -> Result<(), String> {
    for ranks in list(&settings["ranks"])? {
        for in_set in [false, true] {
            let is_meant = |run: &Value| run["ranks"] == *ranks && run["in_set"] == in_set;
            let run = find(runs, is_meant, format!("{ranks} ranks, in a set: {in_set}"))?;
            positive(run, "checkpoint_ms")?;
            positive(run, "log_peak_mib")?;
            positive(run, "wall_s")?;
        }
    }
    Ok(())
}

/// Checks that each method was measured with and without a fault, and each protocol's recovery.
fn rollback(settings: &Value, runs: &[Value]) -> Result<(), String> {
    for way in ["beginning", "coordinated"] {
        let run = find(runs, |run| run["way"] == way, way.into())?;
        positive(&run["calm"], "wall_s")?;
        positive(&run["fault"], "wall_s")?;
    }
    for protocol in list(&settings["protocol"])? {
        let is_meant = |run: &Value| {
            run["way"] == "logging" && (protocol == "all" || &run["protocol"] == protocol)
        };
        let run = find(runs, is_meant, format!("logging with {protocol}"))?;
        positive(&run["calm"], "wall_s")?;
        positive(&run["fault"], "wall_s")?;
        figures(&run["recovery"])?;
    }
    Ok(())
}

/// Checks that each death has its recovery, and the rate during it.
fn survivors(settings: &Value, runs: &[Value]) -> Result<(), String> {
    for run in runs {
        positive(run, "outside_per_s")?;
        let recoveries = list(&run["recoveries"])?;
        if recoveries.len() as u64 > count(settings, "deaths")? {
            return Err("more ranks died than were killed".into());
        }
        for name in ["during", "standstill_ms", "around"] {
            let found = list(&run[name])?.len();
            if found > recoveries.len() {
                let deaths = recoveries.len();
                return Err(format!("{deaths} deaths, but {name} of {found}"));
            }
        }
        // A rank that dies again in its replay has no figures.
        let finished = recoveries.iter().map(figures).find(Result::is_ok);
        finished.unwrap_or_else(|| figures(&recoveries[0]))?;
    }
    Ok(())
}

/// Checks that each collective was measured with each protocol at each size.
fn collectives(settings: &Value, runs: &[Value]) -> Result<(), String> {
    for operation in list(&settings["operations"])? {
        let sizes = match operation.as_str() {
            Some("barrier") => &vec![0.into()],
            _ => list(&settings["sizes"])?,
        };
        for (size, protocol) in (sizes.iter()).flat_map(|size| {
            settings["protocol"]
                .as_array()
                .into_iter()
                .flatten()
                .map(move |it| (size, it))
        }) {
            let is_meant = |run: &Value| {
                (&run["operation"], &run["bytes"], &run["contestant"])
                    == (operation, size, protocol)
            };
            let run = find(
                runs,
                is_meant,
                format!("{operation}, {size} bytes, {protocol}"),
            )?;
            positive(run, "blocking_us")?;
            if settings["blocking"] == false {
                positive(&run["overlap"], "both_us")?;
            }
        }
    }
    Ok(())
}

fn mpi(settings: &Value, runs: &[Value]) -> Result<(), String> {
    let sizes = list(&settings["sizes"])?;
    let cases = sizes.iter().map(|size| ("contiguous", size.clone()));
    for (figure, size) in cases.chain([("start", 0.into())]) {
        for protocol in list(&settings["protocol"])? {
            let is_meant = |run: &Value| {
                run["figure"] == figure && (&run["bytes"], &run["library"]) == (&size, protocol)
            };
            let name = format!("{figure}, {size} bytes, {protocol}");
            positive(find(runs, is_meant, name)?, "value")?;
        }
    }
    Ok(())
}

/// Checks that each protocol has its load on each pattern at each size.
fn family(settings: &Value, runs: &[Value]) -> Result<(), String> {
    for pattern in list(&settings["patterns"])? {
        for ranks in list(&settings["ranks"])? {
            for protocol in list(&settings["protocol"])? {
                let is_meant = |run: &Value| {
                    (&run["pattern"], &run["ranks"]) == (pattern, ranks)
                        && (protocol == "all" || &run["protocol"] == protocol)
                };
                let name = format!("{pattern}, {ranks} ranks, {protocol}");
                let load = &find(runs, is_meant, name)?["load"];
                positive(load, "messages")?;
                positive(load, "iteration_us")?;
            }
        }
    }
    Ok(())
}

/// Checks the times that the launcher reports.
fn figures(recovery: &Value) -> Result<(), String> {
    count(recovery, "noticed_us")?;
    count(recovery, "total_us")?;
    let figures = &recovery["figures"];
    count(figures, "replay_us")?;
    // A rank that misses no message has caught up before one comes.
    match &figures["first_message_us"] {
        Value::Null => Ok(()),
        _ => count(figures, "first_message_us").map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The first problem, if there is one.
    fn problem(experiment: &str, settings: Value, runs: Value) -> Option<String> {
        let text = json!({
            "experiment": experiment, "machine": "m", "settings": settings, "runs": runs,
        });
        read(&text.to_string(), experiment).err()
    }

    #[test]
    fn re_execution_has_every_size_with_every_number_of_ranks() {
        let settings = json!({"sizes": [64], "ranks": 1});
        let calm = json!({"bytes": 64, "again": 0, "first_s": 1.0, "again_s": null, "wall_s": 2.0});
        let again = json!({"bytes": 64, "again": 1, "first_s": 1.0, "again_s": 0.5,
                           "restart_s": null, "wall_s": 2.0});
        let of = |runs| problem("re-execution", settings.clone(), runs);
        assert_eq!(of(json!([calm, again])), None);
        assert!(of(json!([calm])).unwrap().contains("1 again: not measured"));
        assert!(of(json!([])).unwrap().contains("nothing was measured"));
        let mut not_again = again.clone();
        not_again["again_s"] = json!(null);
        assert!(of(json!([calm, not_again])).unwrap().contains("again_s"));
    }

    #[test]
    fn faults_have_deaths_and_are_compared() {
        let settings = json!({"faults": 1});
        let run = |faults: u64, deaths: u64, relative: f64| json!({"faults": faults, "deaths": deaths, "wall_s": 1.0, "relative": relative});
        let of = |runs| problem("faults", settings.clone(), runs);
        assert_eq!(of(json!([run(0, 0, 1.0), run(1, 1, 1.1)])), None);
        let none = of(json!([run(0, 0, 1.0), run(1, 0, 1.1)]));
        assert!(none.unwrap().contains("no rank died"));
        assert!(of(json!([run(0, 1, 1.0), run(1, 1, 1.1)])).is_some());
        assert!(of(json!([run(0, 0, 1.0), run(1, 1, 0.0)])).is_some());
        assert!(of(json!([run(0, 0, 1.0)])).is_some());
    }

    #[test]
    fn rollback_has_each_way_and_protocol() {
        let settings = json!({"protocol": ["pessimist", "ticket"]});
        let run =
            |way: &str| json!({"way": way, "calm": {"wall_s": 1.0}, "fault": {"wall_s": 2.0}});
        let logging = |protocol: &str| {
            let mut run = run("logging");
            run["protocol"] = protocol.into();
            run["recovery"] = json!({"noticed_us": 1, "total_us": 2, "figures": {"first_message_us": 3, "replay_us": 4}});
            run
        };
        let of = |runs| problem("rollback", settings.clone(), runs);
        let (one, other) = (logging("pessimist"), logging("ticket"));
        let all = json!([one, other, run("beginning"), run("coordinated")]);
        assert_eq!(of(all), None);
        let two = json!([one, other, run("beginning")]);
        assert!(of(two).unwrap().contains("coordinated"));
        let three = json!([one, run("beginning"), run("coordinated")]);
        assert!(of(three).unwrap().contains("ticket"));
        let mut unfinished = other.clone();
        unfinished["recovery"]["total_us"] = json!(null);
        let four = json!([one, unfinished, run("beginning"), run("coordinated")]);
        assert!(of(four).unwrap().contains("total_us"));
    }

    #[test]
    fn survivors_have_a_rate_for_each_death() {
        let settings = json!({"deaths": 1});
        let recovery = json!({"noticed_us": 1, "total_us": 2, "figures": {"first_message_us": 3, "replay_us": 4}});
        let run = json!({"outside_per_s": 9.0, "during": [1.0], "standstill_ms": [30.0],
                         "around": [[1.0]], "recoveries": [recovery]});
        let of = |run: &Value| problem("survivors", settings.clone(), json!([run]));
        assert_eq!(of(&run), None);
        let mut rates = run.clone();
        rates["during"] = json!([1.0, 1.0]);
        assert!(of(&rates).unwrap().contains("during of 2"));
        let mut unfinished = run.clone();
        unfinished["recoveries"][0]["total_us"] = json!(null);
        assert!(of(&unfinished).unwrap().contains("total_us"));
    }

    #[test]
    fn collectives_have_every_size_with_every_protocol() {
        let settings = json!({"operations": ["barrier", "scan"], "sizes": [8, 64],
                              "protocol": ["none"], "blocking": false});
        let run = |operation: &str, bytes: u64| {
            json!({"operation": operation, "bytes": bytes, "contestant": "none",
                   "blocking_us": 1.0, "overlap": {"both_us": 2.0}})
        };
        let of = |runs| problem("collectives", settings.clone(), runs);
        let all = [run("barrier", 0), run("scan", 8), run("scan", 64)];
        assert_eq!(of(json!(all)), None);
        assert!(of(json!(all[..2])).unwrap().contains("64 bytes"));
        let mut alone = all.clone();
        alone[1]["overlap"] = json!(null);
        assert!(of(json!(alone)).unwrap().contains("both_us"));
    }

    #[test]
    fn mpi_has_every_size_and_the_start() {
        let settings = json!({"sizes": [8], "protocol": ["none"]});
        let run = |figure: &str, bytes: u64| json!({"figure": figure, "bytes": bytes, "library": "none", "value": 0.5});
        let of = |runs| problem("mpi", settings.clone(), runs);
        let all = [run("contiguous", 8), run("start", 0)];
        assert_eq!(of(json!(all)), None);
        assert!(of(json!(all[..1])).unwrap().contains("start"));
        assert!(of(json!(all[1..])).unwrap().contains("8 bytes"));
    }

    #[test]
    fn family_has_every_pattern_size_and_protocol() {
        let settings = json!({"patterns": ["stencil"], "ranks": [4, 8], "protocol": ["causal"]});
        let run = |ranks: u64, us: f64| {
            json!({"pattern": "stencil", "ranks": ranks, "protocol": "causal",
                   "load": {"messages": 1.0, "iteration_us": us}})
        };
        let of = |runs| problem("family", settings.clone(), runs);
        assert_eq!(of(json!([run(4, 1.0), run(8, 1.0)])), None);
        assert!(of(json!([run(4, 1.0)])).unwrap().contains("8 ranks"));
        assert!(of(json!([run(4, 1.0), run(8, 0.0)])).is_some());
    }

    #[test]
    fn it_must_be_of_this_experiment_and_machine() {
        assert!(read("{", "faults").is_err());
        let other = json!({"experiment": "rollback", "machine": "m", "runs": [1]}).to_string();
        assert!(read(&other, "faults").unwrap_err().contains("rollback"));
        let nowhere = json!({"experiment": "faults", "machine": "", "runs": [1]}).to_string();
        assert!(read(&nowhere, "faults").unwrap_err().contains("machine"));
    }
}
