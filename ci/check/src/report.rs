//! The findings of the checks.

use std::fmt;

/// One finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// An error, which fails the run.
    Wrong(String),
    /// A note, which does not fail the run.
    Note(String),
}

/// The findings of all checks, by section.
#[derive(Debug, Default)]
pub struct Report {
    sections: Vec<(&'static str, Vec<Finding>)>,
}

impl Report {
    /// Adds the findings of one check.
    pub fn section(&mut self, title: &'static str, findings: Vec<Finding>) {
        self.sections.push((title, findings));
    }

    /// Whether there is any error.
    pub fn failed(&self) -> bool {
        self.sections
            .iter()
            .flat_map(|(_, findings)| findings)
            .any(is_wrong)
    }
}

fn is_wrong(finding: &Finding) -> bool {
    matches!(finding, Finding::Wrong(_))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, findings) in &self.sections {
            let verdict = if findings.iter().any(is_wrong) {
                "FAIL"
            } else {
                "ok"
            };
            writeln!(f, "{verdict:4} {title}")?;
            for finding in findings {
                match finding {
                    Finding::Wrong(text) => writeln!(f, "     wrong: {text}")?,
                    Finding::Note(text) => writeln!(f, "     note: {text}")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_do_not_fail_a_run() {
        let mut report = Report::default();
        report.section("a", vec![Finding::Note("n".into())]);
        assert!(!report.failed());
        report.section("b", vec![Finding::Wrong("w".into())]);
        assert!(report.failed());
        assert_eq!(
            report.to_string(),
            "ok   a\n     note: n\nFAIL b\n     wrong: w\n"
        );
    }
}
