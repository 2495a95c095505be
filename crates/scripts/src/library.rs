//! Libraries of functions: what their first line declares, the sandbox in which their code registers functions, and calling these.
//!
//! While a library loads it sees `server.register_function`, `server.log` and constants, nothing else; its functions see later what
//! scripts see, but no `KEYS` and `ARGV`. All libraries of a virtual machine share one table of globals, a proxy, whose `__index` is
//! exchanged for the time of the load:
//!
//! ```text
//! globals of libraries {}  --metatable--> __index: {redis, server} while one loads, else the globals of scripts
//!                                         __newindex: error
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use resp::{Proto, Reply};

use crate::base;
use crate::host::{Called, Host, Level, Poll, Ran};
use crate::script::{Flags, first_line};
use crate::server::{self, Versions, raised};
use crate::stack::{Fail, Kind, Results, Stack};
use crate::state::{Outcome, Ref, State, Stop};
use crate::vm::Vm;

/// How long a library may take to load.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);

/// The source of a library. Threads share it; each loads it once into its own virtual machine.
pub struct Library {
    /// From the first line.
    pub name: Box<[u8]>,
    /// As it was sent.
    pub source: Box<[u8]>,
    /// Unique in the process.
    id: u64,
    /// Where the code begins: the first line is not Lua.
    code_start: usize,
}

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// By which FCALL finds it.
    pub name: Box<[u8]>,
    /// What it declares about itself.
    pub flags: Flags,
    /// For people.
    pub description: Option<Box<[u8]>>,
}

/// What functions that load leave behind for [`Vm::load`].
pub(crate) type Registering = Vec<(Registered, Ref)>;

/// The libraries of one virtual machine.
pub(crate) struct Loaded {
    /// The table of globals of all libraries, and its metatable.
    globals: Ref,
    metatable: Ref,
    /// What libraries see while they load.
    sandbox: Ref,
    functions: HashMap<u64, HashMap<Box<[u8]>, Ref>>,
    /// The version of the set of libraries that were kept last.
    version: u64,
}

/// Letters, digits and underscores, at least one.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

impl Library {
    /// Reads the first line. What can be wrong with it is an error text of Valkey.
    pub fn new(source: &[u8]) -> Result<Library, Vec<u8>> {
        let error = |text: &str| [b"ERR ", text.as_bytes()].concat();
        if !source.starts_with(b"#!") {
            return Err(error("Missing library metadata"));
        }
        if !source.contains(&b'\n') {
            return Err(error("Invalid library metadata"));
        }
        match source.get(2) {
            Some(b'\n') => return Err(error("Library name was not given")),
            Some(byte) if byte.is_ascii_whitespace() => return Err(error("Engine '' not found")),
            _ => {}
        }
        let line = first_line(source).map_err(|text| {
            let engine = text.strip_prefix(b"ERR Could not find scripting engine ");
            engine.map_or(text.clone(), |engine| [b"ERR Engine ", engine, b" not found"].concat())
        })?;
        let line = line.ok_or_else(|| error("Missing library metadata"))?;
        let mut name: Option<&[u8]> = None;
        for word in &line.options {
            let Some(value) = word.strip_prefix(b"name=") else {
                return Err([b"ERR Invalid metadata value given: ", word.as_slice()].concat());
            };
            if name.replace(value).is_some() {
                return Err(error("Invalid metadata value, name argument was given multiple times"));
            }
        }
        let name = name.ok_or_else(|| error("Library name was not given"))?;
        if !is_name(name) {
            let text = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
            return Err(error(text));
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Library { name: name.into(), source: source.into(), id, code_start: line.len })
    }
}

impl Loaded {
    /// `globals` is the real table of globals of scripts.
    pub(crate) fn new(state: &mut State, globals: Ref, versions: Versions) -> Loaded {
        let mut stack = state.stack();
        stack.push_table(0, 2).expect("a new state is far from its limit");
        // The second one is what the code sees of the server.
        stack.push_table(0, 16).expect("a new state is far from its limit");
        server::push_constants(&mut stack, versions);
        stack.push_function(server::log);
        stack.set_field(-2, "log");
        stack.push_function(register_function);
        stack.set_field(-2, "register_function");
        base::refuse_missing(state);
        for name in ["redis", "server"] {
            let mut stack = state.stack();
            stack.push_copy(2);
            stack.set_field(1, name);
            base::protect_library(state, 1, name);
        }
        state.set_top(1);
        base::refuse_missing(state);
        let sandbox = state.keep();
        state.push_kept(globals);
        base::make_proxy(state, false);
        state.push_metatable(-1);
        let metatable = state.keep();
        let globals = state.keep();
        state.clear();
        Loaded { globals, metatable, sandbox, functions: HashMap::new(), version: 0 }
    }

    /// What the libraries see from now on.
    fn show(&self, state: &mut State, table: Ref) {
        state.push_kept(self.metatable);
        state.push_kept(table);
        state.stack().set_field(-2, "__index");
        state.set_top(0);
    }
}

/// The server as code that loads sees it: a log, and a limit of time.
struct Loading<'h> {
    began: Instant,
    log: &'h mut dyn FnMut(Level, &[u8]),
}

impl Host for Loading<'_> {
    fn call(&mut self, _: &[&[u8]], reply: &mut Reply) -> Called {
        reply.error("ERR no command can be called while a library is loaded");
        Called::Done
    }

    fn acl_allows(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, level: Level, message: &[u8]) {
        (self.log)(level, message);
    }

    fn poll(&mut self) -> Poll {
        if self.began.elapsed() > LOAD_TIME_MAX { Poll::Kill("FUNCTION LOAD timeout") } else { Poll::Go }
    }
}

impl Vm {
    /// Loads a library into this virtual machine. What it registers, in this order; or a RESP error, and nothing is loaded.
    pub fn load(
        &mut self,
        library: &Library,
        log: &mut dyn FnMut(Level, &[u8]),
    ) -> Result<Vec<Registered>, Vec<u8>> {
        let failed = |text: &[u8]| Err([b"ERR Error registering functions: ", text].concat());
        if self.state.compile(&library.source[library.code_start..], c"@user_function") == Outcome::Error {
            let text = self.state.stack().string(-1).unwrap_or(b"").to_vec();
            self.state.clear();
            return Err([b"ERR Error compiling function: ", text.as_slice()].concat());
        }
        let chunk = self.state.keep();
        self.libraries.show(&mut self.state, self.libraries.sandbox);
        self.state.push_kept(chunk);
        self.state.let_go(chunk);
        self.state.push_kept(self.libraries.globals);
        self.state.set_environment();
        self.state.shared().registering = Some(Vec::new());
        let outcome = self.state.call(0, 0, self.handler, &mut Loading { began: Instant::now(), log });
        let error = match (self.state.shared().stop, outcome) {
            (Stop::Kill(text), _) => Some(format!("ERR {text}").into_bytes()),
            (_, Outcome::Error) => Some(self.error_alone()),
            _ => None,
        };
        self.finish(Ran::Done);
        self.libraries.show(&mut self.state, self.globals);
        let registering = self.state.shared().registering.take().unwrap_or_default();
        if let Some(text) = error {
            registering.into_iter().for_each(|(_, kept)| self.state.let_go(kept));
            return failed(&text);
        }
        let mut functions = HashMap::new();
        let mut registered = Vec::with_capacity(registering.len());
        for (one, kept) in registering {
            functions.insert(one.name.clone(), kept);
            registered.push(one);
        }
        self.libraries.functions.insert(library.id, functions);
        Ok(registered)
    }

    /// Forgets a library that this virtual machine has loaded.
    pub fn unload(&mut self, library: &Library) {
        self.unload_id(library.id);
    }

    fn unload_id(&mut self, id: u64) {
        for (_, kept) in self.libraries.functions.remove(&id).into_iter().flatten() {
            self.state.let_go(kept);
        }
    }

    /// Forgets what is not among `libraries`, which have this version; nothing to do if it is the one that was kept last.
    pub fn keep_libraries<'l>(&mut self, version: u64, libraries: impl Iterator<Item = &'l Library>) {
        if self.libraries.version == version {
            return;
        }
        self.libraries.version = version;
        let known: Vec<u64> = libraries.map(|library| library.id).collect();
        let gone: Vec<u64> =
            self.libraries.functions.keys().filter(|id| !known.contains(id)).copied().collect();
        gone.into_iter().for_each(|id| self.unload_id(id));
    }

    /// Calls a function of a library, which is loaded now if it was not yet. `reply` gets one reply in its dialect, unless the host says
    /// stop.
    pub fn call(
        &mut self,
        (library, function): (&Library, &[u8]),
        keys: &[&[u8]],
        argv: &[&[u8]],
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Ran {
        if !self.libraries.functions.contains_key(&library.id)
            && let Err(text) = self.load(library, &mut |_, _| ())
        {
            reply.error_bytes(&text);
            return Ran::Failed;
        }
        let Some(kept) = self.libraries.functions[&library.id].get(function).copied() else {
            // It registers what it registered before, unless it asked for the time or for chance.
            reply.error("ERR Function not found");
            return Ran::Failed;
        };
        self.forget_arguments();
        self.state.push_kept(kept);
        let mut stack = self.state.stack();
        let pushed = push_words(&mut stack, keys).and_then(|()| push_words(&mut stack, argv));
        if pushed.is_err() {
            reply.error("ERR not enough memory");
            return self.finish(Ran::Failed);
        }
        self.state.shared().proto = Proto::Resp2;
        let outcome = self.state.call(2, 1, self.handler, host);
        self.answer(outcome, reply)
    }
}

fn push_words(stack: &mut Stack<'_>, words: &[&[u8]]) -> Result<(), Fail> {
    stack.push_table(words.len(), 0)?;
    for (word, index) in words.iter().zip(1..) {
        stack.push_string(word)?;
        stack.set_index(-2, index);
    }
    Ok(())
}

/// `server.register_function(name, function)`, or with a table of named arguments.
fn register_function(stack: &mut Stack<'_>) -> Results {
    match read_arguments(stack) {
        Ok((registered, at)) => {
            stack.push_copy(at);
            let kept = stack.keep();
            match &mut stack.shared().registering {
                Some(registering) => registering.push((registered, kept)),
                None => stack.let_go(kept),
            }
            Ok(0)
        }
        Err(text) => Err(raised(stack, text)),
    }
}

/// What is registered, and the place of its function on the stack.
fn read_arguments(stack: &mut Stack<'_>) -> Result<(Registered, i32), &'static str> {
    match stack.top() {
        1 if stack.kind(1) == Kind::Table => read_named(stack),
        1 => Err(
            "calling server.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ),
        2 => {
            let name = stack.text(1).ok_or("first argument to server.register_function must be a string")?;
            if stack.kind(2) != Kind::Function {
                return Err("second argument to server.register_function must be a function");
            }
            Ok((Registered { name: name.into(), flags: Flags::default(), description: None }, 2))
        }
        _ => Err("wrong number of arguments to server.register_function"),
    }
}

fn read_named(stack: &mut Stack<'_>) -> Result<(Registered, i32), &'static str> {
    // Places for the function and the values that are looked at.
    stack.push_nil();
    let (mut name, mut description, mut flags) = (None, None, Flags::default());
    stack.push_nil();
    while stack.next(1) {
        if !matches!(stack.kind(-2), Kind::String | Kind::Number) {
            return Err("named argument key given to server.register_function is not a string");
        }
        match stack.string(-2).unwrap_or_default() {
            b"function_name" => {
                let text = stack.text(-1);
                name = Some(
                    text.ok_or("function_name argument given to server.register_function must be a string")?
                        .into(),
                );
            }
            b"description" => {
                let text = stack.text(-1);
                description = Some(
                    text.ok_or("description argument given to server.register_function must be a string")?
                        .into(),
                );
            }
            b"callback" => {
                if stack.kind(-1) != Kind::Function {
                    return Err("callback argument given to server.register_function must be a function");
                }
                stack.push_copy(-1);
                stack.replace(2);
            }
            b"flags" => flags = read_flags(stack)?,
            _ => return Err("unknown argument given to server.register_function"),
        }
        stack.drop_top(1);
    }
    let name = name.ok_or("server.register_function must get a function name argument")?;
    if stack.kind(2) != Kind::Function {
        return Err("server.register_function must get a callback argument");
    }
    Ok((Registered { name, flags, description }, 2))
}

/// The names in the table on top of the stack.
fn read_flags(stack: &mut Stack<'_>) -> Result<Flags, &'static str> {
    if stack.kind(-1) != Kind::Table {
        return Err("flags argument to server.register_function must be a table representing function flags");
    }
    let mut flags = Flags::default();
    for index in 1.. {
        stack.get_index(-1, index);
        let flag = match stack.kind(-1) {
            Kind::Nil => None,
            _ => Some(stack.string(-1).and_then(Flags::named).ok_or("unknown flag given")?),
        };
        stack.drop_top(1);
        let Some(flag) = flag else { break };
        flags = flags.with(flag);
    }
    Ok(flags)
}
