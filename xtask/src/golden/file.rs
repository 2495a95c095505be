//! A golden file as a list of steps, and the way back to text with other replies. Not the meaning of the steps: see `play`.

use std::time::Duration;

use crate::fail::Result;

/// A parsed file.
#[derive(Debug, Default)]
pub struct File {
    /// Words for the server's command line, from `# server`.
    pub server_words: Vec<String>,
    pub steps: Vec<Step>,
    /// The lines that are no replies, each before the step of the same index; what follows the last step is at the end.
    frame: Vec<Vec<String>>,
}

/// One thing to do.
#[derive(Debug, PartialEq)]
pub struct Step {
    /// The line of the file, counted from 1.
    pub line: usize,
    pub action: Action,
    /// What to do with the reply before it is compared, for steps that have one.
    pub view: View,
    /// The reply as it stands in the file; empty for steps without one.
    pub recorded: Vec<String>,
}

/// What a step does.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Sends a command and reads its reply.
    Send(String),
    /// Reads another reply without sending anything.
    Read,
    /// Further steps use this connection.
    Client(String),
    /// Switches the protocol with HELLO.
    Protocol(u8),
    /// Lets time pass.
    Wait(Duration),
}

impl Action {
    /// Whether a reply follows.
    pub fn replies(&self) -> bool {
        matches!(self, Self::Send(_) | Self::Read)
    }
}

/// How a reply is looked at: what of it is volatile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Elements in any order.
    pub unordered: bool,
    /// Only types and counts.
    pub types_only: bool,
    /// Integers may be off by this much.
    pub within: i64,
    /// What follows one of these inside a text is hidden up to the next blank.
    pub masked: Vec<String>,
    /// Of a text only the blank-separated parts that match one of these patterns.
    pub kept: Vec<String>,
    /// The reply, or its first element, gets this name for `{name}` in later commands.
    pub named: Option<String>,
}

impl File {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self> {
        let mut file = Self { frame: vec![Vec::new()], ..Self::default() };
        let mut view = View::default();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let at = |why: &str| format!("line {number}: {why}");
            let sends = line
                .strip_prefix("> ")
                .map(|c| (c, false))
                .or_else(|| line.strip_prefix("~ ").map(|c| (c, true)));
            if let Some((command, unordered)) = sends {
                view.unordered = unordered;
                file.step(number, line, Action::Send(command.to_string()), std::mem::take(&mut view));
            } else if let Some(rest) = line.strip_prefix("# ") {
                match directive(rest).map_err(|why| at(&why))? {
                    Directive::Action(Action::Read) => {
                        file.step(number, line, Action::Read, std::mem::take(&mut view))
                    }
                    Directive::Action(action) => file.step(number, line, action, View::default()),
                    Directive::View(change) => {
                        change(&mut view);
                        file.keep(line);
                    }
                    Directive::Server(words) => {
                        if !file.steps.is_empty() {
                            return Err(at("`# server` stands before everything else").into());
                        }
                        file.server_words.extend(words);
                        file.keep(line);
                    }
                }
            } else if line.is_empty() || line.starts_with("##") {
                file.keep(line);
            } else if let Some(step) = file.steps.last_mut().filter(|step| step.action.replies()) {
                if file.frame.last().is_some_and(|lines| !lines.is_empty()) {
                    return Err(at("this reply does not follow a command").into());
                }
                step.recorded.push(line.to_string());
            } else {
                return Err(at("neither a command, a directive, a comment nor a reply").into());
            }
        }
        Ok(file)
    }

    fn keep(&mut self, line: &str) {
        self.frame.last_mut().expect("the frame begins with one list").push(line.to_string());
    }

    fn step(&mut self, number: usize, line: &str, action: Action, view: View) {
        self.keep(line);
        self.frame.push(Vec::new());
        self.steps.push(Step { line: number, action, view, recorded: Vec::new() });
    }

    /// The file's text with these replies, one for each step that has one.
    pub fn with_replies(&self, replies: &[Vec<String>]) -> String {
        let mut replies = replies.iter();
        let mut lines: Vec<&str> = Vec::new();
        for (index, frame) in self.frame.iter().enumerate() {
            lines.extend(frame.iter().map(String::as_str));
            if self.steps.get(index).is_some_and(|step| step.action.replies()) {
                lines.extend(replies.next().into_iter().flatten().map(String::as_str));
            }
        }
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }
}

/// A line that begins with `# `.
enum Directive {
    Action(Action),
    View(Box<dyn FnOnce(&mut View)>),
    Server(Vec<String>),
}

fn directive(text: &str) -> std::result::Result<Directive, String> {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let list = || rest.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let number = || rest.trim().parse::<u32>().map_err(|_| format!("`# {name}` needs a number"));
    let view = |change: Box<dyn FnOnce(&mut View)>| Ok(Directive::View(change));
    match name {
        "resp2" => Ok(Directive::Action(Action::Protocol(2))),
        "resp3" => Ok(Directive::Action(Action::Protocol(3))),
        "client" if !rest.is_empty() => Ok(Directive::Action(Action::Client(rest.to_string()))),
        "wait" => Ok(Directive::Action(Action::Wait(Duration::from_millis(number()?.into())))),
        "read" => Ok(Directive::Action(Action::Read)),
        "server" => Ok(Directive::Server(list())),
        "type" => view(Box::new(|view| view.types_only = true)),
        "within" => {
            let within = number()?.into();
            view(Box::new(move |view| view.within = within))
        }
        "mask" => {
            let words = list();
            view(Box::new(move |view| view.masked.extend(words)))
        }
        "keep" => {
            let words = list();
            view(Box::new(move |view| view.kept.extend(words)))
        }
        "let" if !rest.is_empty() => {
            let name = rest.trim().to_string();
            view(Box::new(move |view| view.named = Some(name)))
        }
        _ => Err(format!("unknown directive `# {text}`; a comment begins with `##`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "## About SET.\n# server --maxmemory 0\n\n> SET a 1\nOK\n# within 10\n> TTL a\n(integer) 1\n\n~ KEYS *\n1) \"a\"\n# client two\n# read\n(closed)\n";

    #[test]
    fn a_file_is_its_steps() {
        let file = File::parse(TEXT).unwrap();
        assert_eq!(file.server_words, ["--maxmemory", "0"]);
        let actions: Vec<_> = file.steps.iter().map(|step| &step.action).collect();
        let send = |text: &str| Action::Send(text.into());
        assert_eq!(
            actions,
            [&send("SET a 1"), &send("TTL a"), &send("KEYS *"), &Action::Client("two".into()), &Action::Read]
        );
        assert_eq!(file.steps[1].view.within, 10);
        assert!(file.steps[2].view.unordered && !file.steps[1].view.unordered);
        assert_eq!(file.steps[2].recorded, ["1) \"a\""]);
        assert_eq!(file.steps[4].line, 13);
    }

    #[test]
    fn blessing_changes_only_replies() {
        let file = File::parse(TEXT).unwrap();
        let same: Vec<_> =
            file.steps.iter().filter(|s| s.action.replies()).map(|s| s.recorded.clone()).collect();
        assert_eq!(file.with_replies(&same), TEXT);
        let mut other = same;
        other[0] = vec!["1) x".into(), "2) y".into()];
        assert_eq!(file.with_replies(&other), TEXT.replacen("OK\n", "1) x\n2) y\n", 1));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in
            ["# resp4\n", "OK\n", "> A\nOK\n\nOK\n", "> A\n# server x\n", "# wait soon\n", "# client\n"]
        {
            assert!(File::parse(text).is_err(), "{text:?}");
        }
    }
}
