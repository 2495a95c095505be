//! The virtual machine of one thread: a Lua state with everything that scripts find in it, and what it has compiled.
//!
//! HOT: running a script that is compiled.

use std::collections::HashMap;

use resp::{Proto, Reply};

use crate::host::{Host, Ran};
use crate::library::Loaded;
use crate::script::Script;
use crate::server::Versions;
use crate::stack::Kind;
use crate::state::{Outcome, Ref, State, Stop};
use crate::{base, bit, cjson, cmsgpack, convert, random, server, structs};

/// Compiled scripts that a virtual machine keeps; at one more it forgets all and compiles again what is still used.
const COMPILED_MAX: usize = 2_000;

/// Memory that a run has left behind and that is worth collecting at once, in bytes.
const GARBAGE_MAX: usize = 8 << 20;

/// Memory that a collection has freed and that is worth giving back to the system, in bytes: malloc would keep it.
const GIVEN_BACK_MIN: usize = 64 << 20;

/// What a virtual machine is made with.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of memory that all scripts of one virtual machine may hold together.
    pub memory_bytes_max: usize,
    /// What scripts are told.
    pub versions: Versions,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Room for a value of 512 MiB, the largest there is, as an argument and once more in the script.
            memory_bytes_max: 1280 << 20,
            versions: Versions { redis: "7.2.4", valkey: "9.1.2" },
        }
    }
}

/// Runs scripts. One per thread; not `Send`.
pub struct Vm {
    pub(crate) state: State,
    /// The real table of globals.
    pub(crate) globals: Ref,
    /// Completes errors: see [`server::locate_error`].
    pub(crate) handler: Ref,
    compiled: HashMap<u64, Ref>,
    /// Memory after the last collection.
    bytes_kept: usize,
    pub(crate) libraries: Loaded,
}

impl Default for Vm {
    fn default() -> Vm {
        Vm::new(Limits::default())
    }
}

impl Vm {
    /// A virtual machine with all libraries. Takes about 0.2 ms and 60 KB.
    pub fn new(limits: Limits) -> Vm {
        let mut state = State::new(limits.memory_bytes_max);
        base::open(&mut state);
        random::open(&mut state);
        bit::push(&mut state);
        state.stack().set_field(1, "bit");
        cjson::push(&mut state);
        state.stack().set_field(1, "cjson");
        cmsgpack::push(&mut state);
        state.stack().set_field(1, "cmsgpack");
        structs::push(&mut state);
        state.stack().set_field(1, "struct");
        server::push(&mut state, limits.versions);
        state.stack().push_copy(-1);
        state.stack().set_field(1, "redis");
        base::protect_library(&mut state, 1, "redis");
        state.set_top(1);
        state.stack().get_field(1, "redis");
        state.stack().set_field(1, "server");
        state.push_function(server::locate_error);
        state.stack().push_copy(-1);
        state.stack().set_field(1, "__redis__err__handler");
        state.stack().push_copy(-1);
        state.stack().set_field(1, "__server__err__handler");
        let handler = state.keep();
        for library in ["string", "table", "math", "coroutine", "os", "bit", "cjson", "cmsgpack", "struct"] {
            base::protect_library(&mut state, 1, library);
        }
        let globals = base::protect(&mut state);
        let libraries = Loaded::new(&mut state, globals, limits.versions);
        let bytes_kept = state.shared().bytes;
        Vm { state, globals, handler, compiled: HashMap::new(), bytes_kept, libraries }
    }

    /// Whether `source` compiles; if so it is a script. The error is a RESP error.
    pub fn check(&mut self, source: &[u8]) -> Result<Script, Vec<u8>> {
        let script = Script::new(source)?;
        self.compile(&script)?;
        self.state.clear();
        Ok(script)
    }

    /// Bytes that Lua holds.
    pub fn memory_bytes(&mut self) -> usize {
        self.state.shared().bytes
    }

    /// Runs a script. `reply` gets one reply in its dialect, unless the host says stop.
    pub fn run(
        &mut self,
        script: &Script,
        keys: &[&[u8]],
        argv: &[&[u8]],
        host: &mut dyn Host,
        reply: &mut Reply,
    ) -> Ran {
        if let Err(text) = self.compile(script) {
            reply.error_bytes(&text);
            return Ran::Failed;
        }
        if self.set_arguments(keys, argv).is_err() {
            reply.error("ERR not enough memory");
            return self.finish(Ran::Failed);
        }
        let shared = self.state.shared();
        shared.proto = Proto::Resp2;
        shared.cjson.clear();
        shared.cjson.push(cjson::Settings::default());
        let outcome = self.state.call(0, 1, self.handler, host);
        self.answer(outcome, reply)
    }

    /// Pushes a script's function, compiled now if it was not yet.
    fn compile(&mut self, script: &Script) -> Result<(), Vec<u8>> {
        if let Some(kept) = self.compiled.get(&script.id) {
            self.state.push_kept(*kept);
            return Ok(());
        }
        if self.state.compile(script.code(), c"@user_script") == Outcome::Error {
            let text = [
                b"ERR Error compiling script (new function): ",
                self.state.stack().string(-1).unwrap_or(b""),
            ];
            let text = text.concat();
            self.state.clear();
            return Err(text);
        }
        if self.compiled.len() >= COMPILED_MAX {
            for (_, kept) in self.compiled.drain() {
                self.state.let_go(kept);
            }
        }
        self.state.stack().push_copy(-1);
        self.compiled.insert(script.id, self.state.keep());
        Ok(())
    }

    /// Sets `KEYS` and `ARGV`.
    fn set_arguments(&mut self, keys: &[&[u8]], argv: &[&[u8]]) -> Result<(), crate::stack::Fail> {
        self.state.push_kept(self.globals);
        let mut stack = self.state.stack();
        for (name, words) in [("KEYS", keys), ("ARGV", argv)] {
            stack.push_table(words.len(), 0)?;
            for (word, index) in words.iter().zip(1..) {
                stack.push_string(word)?;
                stack.set_index(-2, index);
            }
            stack.set_field(-2, name);
        }
        self.state.set_top(1);
        Ok(())
    }

    /// Functions see no `KEYS` and `ARGV`, not even those of the script before.
    pub(crate) fn forget_arguments(&mut self) {
        self.state.push_kept(self.globals);
        let mut stack = self.state.stack();
        for name in ["KEYS", "ARGV"] {
            stack.push_nil();
            stack.set_field(-2, name);
        }
        self.state.clear();
    }

    /// Answers what a protected call has left on the stack.
    pub(crate) fn answer(&mut self, outcome: Outcome, reply: &mut Reply) -> Ran {
        let (stop, proto) = (self.state.shared().stop, self.state.shared().proto);
        let ran = match (stop, outcome) {
            (Stop::Silent, _) => Ran::Stopped,
            (Stop::Kill(text), outcome) => {
                let place = if outcome == Outcome::Error { self.error_text().1 } else { Vec::new() };
                convert::write_error(reply, &[b"ERR ", text.as_bytes(), &place].concat());
                Ran::Failed
            }
            (Stop::No, Outcome::Done) => {
                let errors = reply.errors;
                convert::write_value(&mut self.state.stack(), proto, reply);
                if reply.errors > errors { Ran::Failed } else { Ran::Done }
            }
            (Stop::No, Outcome::Error) => {
                let (text, place) = self.error_text();
                convert::write_error(reply, &[text, place].concat());
                Ran::Failed
            }
        };
        self.finish(ran)
    }

    /// The text of the error on top of the stack, without where it happened.
    pub(crate) fn error_alone(&mut self) -> Vec<u8> {
        let mut stack = self.state.stack();
        if stack.kind(-1) == Kind::Table {
            stack.get_field(-1, "err");
        }
        stack.text(-1).unwrap_or(b"ERR unknown error").to_vec()
    }

    /// The error on top of the stack, as `locate_error` or Lua itself has left it, and where it was raised, if that is known.
    fn error_text(&mut self) -> (Vec<u8>, Vec<u8>) {
        let mut stack = self.state.stack();
        if stack.kind(-1) != Kind::Table {
            // What Lua raises without asking the handler: no memory, or an error in the handler.
            let text = stack.text(-1).unwrap_or(b"unknown error");
            return ([b"ERR ", text].concat(), Vec::new());
        }
        let mut field = |name: &str| {
            stack.get_field(-1, name);
            let text = stack.text(-1).map(<[u8]>::to_vec);
            stack.drop_top(1);
            text
        };
        let (text, source, line) = (field("err"), field("source"), field("line"));
        let place = match (source, line) {
            (Some(source), Some(line)) => [b" script: on ", source.as_slice(), b":", &line, b"."].concat(),
            _ => Vec::new(),
        };
        (text.unwrap_or(b"ERR unknown error".to_vec()), place)
    }

    /// Leaves the virtual machine as it was before.
    pub(crate) fn finish(&mut self, ran: Ran) -> Ran {
        self.state.clear();
        let bytes = self.state.shared().bytes;
        if bytes > self.bytes_kept + GARBAGE_MAX {
            self.state.collect();
            self.bytes_kept = self.state.shared().bytes;
            if bytes > self.bytes_kept + GIVEN_BACK_MIN {
                self.state.give_back();
            }
        }
        ran
    }
}
