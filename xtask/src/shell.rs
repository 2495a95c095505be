//! Running other programs, and where things lie in the workspace.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fail::Result;

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies one level below the root")
}

/// Where builds and everything that tests install and write goes.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs this toolbox.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Whether this is continuous integration: there, a missing tool is a failure instead of a skip.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "0" && value != "false")
}

/// The first program of this name on PATH.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Runs a program with the terminal's own output; its failure is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("{}: {e}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", line(command)).into()) }
}

/// Runs a program and returns what it prints; its failure is an error that shows the end of its output.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("{}: {e}", line(command)))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() {
        return Ok(text);
    }
    let all = text + &String::from_utf8_lossy(&out.stderr);
    let tail: Vec<&str> = all.lines().rev().take(40).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    Err(format!("{}: {}\n{}", line(command), out.status, tail.join("\n")).into())
}

/// Runs a program, handing every line it prints to `each` as it comes; true when it succeeded.
pub fn lines(command: &mut Command, mut each: impl FnMut(&str)) -> Result<bool> {
    let shown = line(command);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|e| format!("{shown}: {e}"))?;
    let stdout = child.stdout.take().expect("the output was asked for as a pipe");
    let mut reader = BufReader::new(stdout);
    let mut bytes = Vec::new();
    while reader.by_ref().read_until(b'\n', &mut bytes)? > 0 {
        each(String::from_utf8_lossy(&bytes).trim_end());
        bytes.clear();
    }
    Ok(child.wait()?.success())
}

/// A program that runs on these processors only (in the notation of `taskset`), or on all.
pub fn pinned(program: &Path, cpus: Option<&str>) -> Command {
    let Some(cpus) = cpus else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", cpus]).arg(program);
    command
}

/// A command as one would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| OsStr::to_string_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
}

/// The files below `dir` that `keep` accepts, in order; build outputs, installed packages and hidden folders are left out.
pub fn files(dir: &Path, keep: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        if !dir.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && !name.starts_with("target") && name != "node_modules" {
                    pending.push(path);
                }
            } else if keep(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A path as people write it: relative to the root where it lies there.
pub fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Whether a path has this extension.
pub fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}
