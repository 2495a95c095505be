//! Several servers for one load: how they are named on the command line, and what is done to each besides loading it.

use std::sync::atomic::AtomicBool;

use crate::app::run_all;
use crate::client::{Address, Client, Value};
use crate::fault::{Fault, Result};
use crate::plan::Plan;
use crate::record::Run;
use crate::watch::Watch;

/// One of the servers: `--target NAME=HOST:PORT`, or `NAME=/path/of/a/socket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub address: Address,
}

impl Target {
    /// All of them; their names must differ.
    pub fn all(texts: &[String]) -> Result<Vec<Self>> {
        let targets: Vec<Self> = texts.iter().map(|text| Self::parse(text)).collect::<Result<_>>()?;
        for (place, target) in targets.iter().enumerate() {
            if targets[..place].iter().any(|other| other.name == target.name) {
                return Err(Fault::new(format!(
                    "two targets are called {}: give each a name of its own",
                    target.name
                )));
            }
        }
        Ok(targets)
    }

    fn parse(text: &str) -> Result<Self> {
        let wrong = || Fault::new(format!("--target is NAME=HOST:PORT or NAME=/SOCKET, and not {text}"));
        let (name, address) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
        let name = name.to_string();
        if address.starts_with('/') {
            return Ok(Self { name, address: Address::Unix(address.into()) });
        }
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self { name, address: Address::Tcp { host, port } })
    }

    /// Runs a plan against this one, after FLUSHALL if wanted.
    pub fn run(
        &self,
        mut plan: Plan,
        flush: bool,
        watch: &mut dyn Watch,
        interrupted: &AtomicBool,
    ) -> Result<Vec<Run>> {
        plan.name = Some(self.name.clone());
        plan.address = self.address.clone();
        if flush {
            flush_all(&plan)?;
        }
        run_all(&plan, watch, interrupted, |_| {})
    }
}

/// Empties the server of a plan, its memory included where it can: what is freed later would be measured with the run.
fn flush_all(plan: &Plan) -> Result<()> {
    let mut client = Client::open(&plan.address, &plan.login)?;
    if !matches!(client.call(&["FLUSHALL", "SYNC"])?, Value::Error(_)) {
        return Ok(());
    }
    match client.call(&["FLUSHALL"])? {
        Value::Error(text) => Err(Fault::new(format!("{} cannot be flushed: {text}", plan.address))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(Target::parse("a=host:7000").unwrap().address, tcp("host", 7000));
        assert_eq!(Target::parse("a=[::1]:7000").unwrap().address, tcp("::1", 7000));
        assert_eq!(Target::parse("a=/tmp/s").unwrap().address, Address::Unix("/tmp/s".into()));
        for wrong in ["host:7000", "=host:7000", "a=host", "a=:1", "a=host:x", "a=host:70000", ""] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
        let same = ["a=h:1".to_string(), "a=h:2".to_string()];
        assert!(Target::all(&same).unwrap_err().to_string().contains("two targets are called a"));
    }
}
