//! The table `server`, which is also called `redis`: what scripts may ask of the server beside their own computing.

use resp::Proto;
use stdx::num::{F64_LEN_MAX, format_f64};
use stdx::sha1::sha1_hex;

use crate::convert::{Pushed, push_error, push_reply};
use crate::host::Level;
use crate::stack::{Fail, Kind, Position, Results, Stack};
use crate::state::{State, call_host};

/// Versions that scripts may ask for: what Darter is compatible with.
#[derive(Clone, Copy, Debug)]
pub struct Versions {
    /// `REDIS_VERSION`, "7.2.4" for example.
    pub redis: &'static str,
    /// `VALKEY_VERSION`
    pub valkey: &'static str,
}

/// "1.2.3" as 0x00010203.
fn version_number(version: &str) -> f64 {
    let parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    f64::from(parts.fold(0, |number, part| number << 8 | part))
}

/// Pushes the table.
pub(crate) fn push(state: &mut State, versions: Versions) {
    let replication = [
        ("REPL_NONE", 0.0),
        ("REPL_AOF", 1.0),
        ("REPL_SLAVE", 2.0),
        ("REPL_REPLICA", 2.0),
        ("REPL_ALL", 3.0),
    ];
    let mut stack = state.stack();
    stack.push_table(0, 32).expect("a new state is far from its limit");
    push_constants(&mut stack, versions);
    for (name, value) in replication {
        stack.push_number(value);
        stack.set_field(-2, name);
    }
    push_functions(&mut stack);
}

/// Sets what is also known while a library loads in the table on top of the stack.
pub(crate) fn push_constants(stack: &mut Stack<'_>, versions: Versions) {
    let numbers = [
        ("LOG_DEBUG", 0.0),
        ("LOG_VERBOSE", 1.0),
        ("LOG_NOTICE", 2.0),
        ("LOG_WARNING", 3.0),
        ("REDIS_VERSION_NUM", version_number(versions.redis)),
        ("VALKEY_VERSION_NUM", version_number(versions.valkey)),
    ];
    let texts =
        [("REDIS_VERSION", versions.redis), ("VALKEY_VERSION", versions.valkey), ("SERVER_NAME", "valkey")];
    for (name, value) in numbers {
        stack.push_number(value);
        stack.set_field(-2, name);
    }
    for (name, value) in texts {
        stack.push_short(value.as_bytes());
        stack.set_field(-2, name);
    }
}

fn push_functions(stack: &mut Stack<'_>) {
    macro_rules! functions {
        ($($name:literal => $function:expr),* $(,)?) => {
            $(stack.push_function($function); stack.set_field(-2, $name);)*
        };
    }
    functions! {
        "call" => call,
        "pcall" => pcall,
        "log" => log,
        "sha1hex" => sha1hex,
        "error_reply" => error_reply,
        "status_reply" => status_reply,
        "setresp" => setresp,
        "acl_check_cmd" => acl_check_cmd,
        "set_repl" => set_repl,
        "replicate_commands" => |stack: &mut Stack<'_>| { stack.push_bool(true); Ok(1) },
        "breakpoint" => |stack: &mut Stack<'_>| { stack.push_bool(false); Ok(1) },
        "debug" => |_: &mut Stack<'_>| Ok(0),
    }
}

/// An error as a table, for `error` to raise.
pub(crate) fn raised(stack: &mut Stack<'_>, text: &str) -> Fail {
    match push_error(stack, text.as_bytes(), false) {
        Ok(()) => Fail::Value,
        Err(fail) => fail,
    }
}

/// Makes all arguments strings; what is wrong with them otherwise.
fn words(stack: &mut Stack<'_>) -> Result<(), &'static str> {
    let count = stack.top();
    if count == 0 {
        return Err("Please specify at least one argument for this call");
    }
    for at in 1..=count {
        match stack.kind(at) {
            Kind::String => {}
            Kind::Number => {
                let number = stack.number(at).unwrap_or_default();
                let mut buffer = [0; F64_LEN_MAX];
                let text = match number {
                    _ if number.is_nan() && number.is_sign_negative() => b"-nan".as_slice(),
                    // Negative zero is an integer.
                    0.0 => b"0",
                    _ => format_f64(number, &mut buffer),
                };
                stack.push_short(text);
                stack.replace(at);
            }
            _ => return Err("Command arguments must be strings or integers"),
        }
    }
    Ok(())
}

fn run(stack: &mut Stack<'_>) -> Result<Pushed, Fail> {
    if let Err(text) = words(stack) {
        push_error(stack, text.as_bytes(), false)?;
        return Ok(Pushed::Error);
    }
    call_host(stack)?;
    // The reply is borrowed from what the stack shares, which pushing touches too.
    let reply = std::mem::take(&mut stack.shared().reply);
    let pushed = push_reply(stack, &reply);
    stack.shared().reply = reply;
    pushed
}

fn call(stack: &mut Stack<'_>) -> Results {
    match run(stack)? {
        Pushed::Value => Ok(1),
        Pushed::Error => Err(Fail::Value),
    }
}

fn pcall(stack: &mut Stack<'_>) -> Results {
    run(stack)?;
    Ok(1)
}

fn acl_check_cmd(stack: &mut Stack<'_>) -> Results {
    if let Err(text) = words(stack) {
        return Err(raised(stack, text));
    }
    let words: Vec<&[u8]> = (1..=stack.top()).filter_map(|at| stack.string(at)).collect();
    match stack.shared().host().and_then(|host| host.acl_allows(&words)) {
        Some(allowed) => stack.push_bool(allowed),
        None => return Err(raised(stack, "Invalid command passed to server.acl_check_cmd()")),
    }
    Ok(1)
}

pub(crate) fn log(stack: &mut Stack<'_>) -> Results {
    let count = stack.top();
    if count < 2 {
        return Err(raised(stack, "server.log() requires two arguments or more."));
    }
    let Some(level) = stack.number(1) else {
        return Err(raised(stack, "First argument must be a number (log level)."));
    };
    let level = match level as i64 {
        0 => Level::Debug,
        1 => Level::Verbose,
        2 => Level::Notice,
        3 => Level::Warning,
        _ => return Err(raised(stack, "Invalid log level.")),
    };
    let mut message = Vec::new();
    for at in 2..=count {
        if let Some(text) = stack.text(at) {
            if !message.is_empty() {
                message.push(b' ');
            }
            message.extend_from_slice(text);
        }
    }
    if let Some(host) = stack.shared().host() {
        host.log(level, &message);
    }
    Ok(0)
}

fn sha1hex(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(raised(stack, "wrong number of arguments"));
    }
    let hex = sha1_hex(stack.text(1).unwrap_or_default());
    stack.push_short(&hex);
    Ok(1)
}

fn error_reply(stack: &mut Stack<'_>) -> Results {
    match single_text(stack) {
        None => push_error(stack, b"wrong number or type of arguments", false)?,
        Some(text) => {
            let (line, coded) = match text.strip_prefix(b"-") {
                Some(rest) => (rest, true),
                None => (text, true),
            };
            push_error(stack, line, coded)?;
        }
    }
    Ok(1)
}

fn status_reply(stack: &mut Stack<'_>) -> Results {
    match single_text(stack) {
        None => push_error(stack, b"wrong number or type of arguments", false)?,
        Some(text) => {
            stack.push_table(0, 1)?;
            stack.push_string(text)?;
            stack.set_field(-2, "ok");
        }
    }
    Ok(1)
}

fn single_text<'s>(stack: &mut Stack<'s>) -> Option<&'s [u8]> {
    if stack.top() == 1 { stack.string(1) } else { None }
}

fn setresp(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(raised(stack, "server.setresp() requires one argument."));
    }
    let proto = match stack.number(1) {
        Some(2.0) => Proto::Resp2,
        Some(3.0) => Proto::Resp3,
        _ => return Err(raised(stack, "RESP version must be 2 or 3.")),
    };
    stack.shared().proto = proto;
    Ok(0)
}

fn set_repl(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(raised(stack, "server.set_repl() requires one argument."));
    }
    // Effects are always journalled: what a script has changed cannot be kept from replicas.
    if !(0..=3).contains(&(stack.number(1).unwrap_or_default() as i64)) {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(raised(stack, text));
    }
    Ok(0)
}

/// Completes an error before the script is unwound: an error is a table that says where it was raised.
pub(crate) fn locate_error(stack: &mut Stack<'_>) -> Results {
    // The nearest function is whoever raised the error; a native one, or one of ours, was called at a line of the script.
    let of_script = |position: &Position| !position.native && position.source != b"=prelude";
    let position = (1..=3).find_map(|level| stack.position(level).filter(of_script));
    if stack.kind(1) != Kind::Table {
        let text = match stack.kind(1) {
            Kind::Nil | Kind::None => b"nil".as_slice(),
            Kind::Bool if stack.truth(1) => b"true",
            Kind::Bool => b"false",
            kind => match stack.text(1) {
                Some(text) => text,
                None => kind.name().as_bytes(),
            },
        };
        let text = [b"ERR ", text].concat();
        stack.push_table(0, 3)?;
        stack.push_string(&text)?;
        stack.set_field(-2, "err");
        stack.replace(1);
    }
    if let Some(position) = position {
        stack.push_short(&position.source);
        stack.set_field(1, "source");
        stack.push_number(position.line.into());
        stack.set_field(1, "line");
    }
    stack.push_copy(1);
    Ok(1)
}
