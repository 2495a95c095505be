//! Every command and subcommand that Darter knows has its golden file: the list comes from Darter's own COMMAND LIST, so nobody can
//! forget to add to it.

use crate::fail::Result;
use crate::server::{Program, Server};
use crate::shell;
use crate::tally::Tally;

/// One check per command: `<family>/<command>.txt` exists, and a container's file sends each of its subcommands.
pub fn check(program: &Program) -> Result<Tally> {
    let words: &[&str] = &[];
    let server = Server::start(program, words)?;
    let list = server.client()?.call(&["COMMAND", "LIST"])?;
    let mut names: Vec<String> = list.items().iter().map(|name| name.text().to_ascii_lowercase()).collect();
    if names.is_empty() {
        return Err(format!("COMMAND LIST gives no names: {:.200}", list.render()).into());
    }
    names.sort();
    let files = super::files()?;
    let mut tally = Tally::default();
    for name in names {
        let (command, subcommand) = name.split_once('|').unwrap_or((&name, ""));
        let file = files.iter().find(|file| file.file_stem().is_some_and(|stem| stem == command));
        let outcome = match file {
            None => Err(format!("no file <family>/{command}.txt")),
            Some(file) => {
                let sent = format!("{command} {subcommand}").trim_end().to_string();
                let text = std::fs::read_to_string(file)?.to_ascii_lowercase();
                let is_sent = |line: &str| {
                    line.strip_prefix(['>', '~']).is_some_and(|l| l.trim_start().starts_with(&sent))
                };
                text.lines()
                    .any(is_sent)
                    .then_some(())
                    .ok_or_else(|| format!("{} never sends it", shell::short(file)))
            }
        };
        tally.check(&format!("golden file of {name}"), outcome, false);
    }
    Ok(tally)
}
