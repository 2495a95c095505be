//! The suite that compares topologies: the same load against a cluster or against a primary with replicas, and the three files that its
//! publication consists of.

use super::Step;
use crate::output::{csv, table};
use crate::record::Run;

/// What the servers form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// A cluster: connections are spread over its nodes.
    Cluster,
    /// A primary with replicas: writes go to the primary, reads to the replicas; to the primary as long as it has none.
    Replication,
}

impl Mode {
    /// The word of the column `mode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Replication => "replication",
        }
    }
}

/// The one load of the suite, with its three tests.
pub fn steps(scale: f64, mode: Mode) -> Vec<Step> {
    let requests = super::scaled(5_000_000, scale);
    let keys = super::scaled(1_000_000, scale);
    let words = format!("-t set,get,incr -d 256 -c 50 -P 16 -r {keys} -n {requests}");
    let nodes: &[&str] = match mode {
        Mode::Cluster => &["--cluster"],
        Mode::Replication => &["--read-from-replicas", "if-any"],
    };
    let words = words.split_whitespace().chain(nodes.iter().copied()).map(str::to_string).collect();
    vec![Step { title: None, words, members: 0 }]
}

/// Names and contents of the three files.
pub fn files(runs: &[Run], table_text: &str, mode: Mode) -> [(&'static str, String); 3] {
    let raw: Vec<String> = runs.iter().map(table::summary).collect();
    let lines: String = runs.iter().map(|run| csv::line(csv::Form::Darter, run, Some(mode.name()))).collect();
    [
        ("summary.txt", format!("topology, mode {}\n\n{table_text}", mode.name())),
        ("raw.txt", raw.join("\n")),
        ("results.csv", format!("{}{lines}", csv::header(csv::Form::Darter))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn the_three_files() {
        let runs = [synthetic::run("a", 2, false), synthetic::run("b", 2, false)];
        let [summary, raw, results] = files(&runs, "a table\n", Mode::Replication);
        assert_eq!(summary, ("summary.txt", "topology, mode replication\n\na table\n".into()));
        assert_eq!(raw.1.matches("latency in ms").count(), 2);
        assert_eq!(results.1.lines().count(), 3);
        assert!(results.1.lines().nth(1).is_some_and(|line| line.contains(",replication,mixed,")));
        assert!(steps(1.0, Mode::Cluster)[0].words.contains(&"--cluster".to_string()));
        assert!(!steps(1.0, Mode::Replication)[0].words.contains(&"--cluster".to_string()));
    }
}
