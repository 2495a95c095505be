//! Lines of comma-separated values: a form of our own, one for published comparisons to be drawn from, and the form of valkey-benchmark.

use crate::record::{Percentiles, Run};
use crate::units::{millis, utc};

/// Which columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// What the run was, its rate and its median.
    Darter,
    /// What `valkey-benchmark --csv` prints.
    Valkey,
}

/// The first line, ended.
pub fn header(form: Form) -> &'static str {
    match form {
        Form::Darter => "workload,mode,test,rps,p50_ms,clients,pipeline,datasize,timestamp\n",
        Form::Valkey => {
            "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n"
        }
    }
}

/// The line of a run, ended. `mode` is `standalone`, `cluster` or `replication`; nothing takes it from the run.
pub fn line(form: Form, run: &Run, mode: Option<&str>) -> String {
    let places = Percentiles::of(&run.corrected());
    let rps = format!("{:.2}", run.per_second());
    let cells: Vec<String> = match form {
        Form::Darter => vec![
            cell(&run.setup.workload),
            mode.unwrap_or(if run.setup.cluster { "cluster" } else { "standalone" }).into(),
            cell(&run.test),
            rps,
            millis(places.p50),
            run.setup.connections.to_string(),
            run.setup.pipeline.to_string(),
            cell(&run.setup.data_size),
            utc(run.started_unix_ms),
        ],
        Form::Valkey => {
            let mean = format!("{:.3}", places.mean / 1e6);
            let latencies = [places.min, places.p50, places.p95, places.p99, places.max].map(millis);
            let figures = [rps, mean].into_iter().chain(latencies);
            std::iter::once(&run.test).cloned().chain(figures).map(|text| quoted(&text)).collect()
        }
    };
    cells.join(",") + "\n"
}

/// A cell, quoted where its text needs it.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { quoted(text) } else { text.to_string() }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    /// Reads a line back as RFC 4180 has it.
    fn cells(line: &str) -> Vec<String> {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        let mut chars = line.trim_end_matches('\n').chars().peekable();
        while let Some(char) = chars.next() {
            let cell = cells.last_mut().unwrap();
            match char {
                '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                other => cell.push(other),
            }
        }
        cells
    }

    #[test]
    fn both_forms_read_back() {
        let mut run = synthetic::run("here", 3, false);
        run.test = "SET, \"loud\"".into();
        assert_eq!(
            cells(&line(Form::Darter, &run, None)),
            [
                "SET:GET 1:3",
                "standalone",
                "SET, \"loud\"",
                "4000.00",
                "0.572",
                "50",
                "16",
                "64",
                "2026-11-21T14:42:05Z"
            ]
        );
        assert_eq!(
            cells(&line(Form::Valkey, &run, None)),
            ["SET, \"loud\"", "4000.00", "0.626", "0.250", "0.572", "1.300", "1.460", "1.500"]
        );
        for form in [Form::Darter, Form::Valkey] {
            assert_eq!(cells(header(form)).len(), cells(&line(form, &run, None)).len());
        }
        assert_eq!(cells(&line(Form::Darter, &run, Some("replication")))[1], "replication");
    }
}
