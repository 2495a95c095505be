//! Unsafe island: one Lua state, its allocator with a limit, its hook, compiling and protected calls.
//!
//! ```text
//! State --owns--> lua_State --allocator's argument--> Shared   (what functions of this crate find from a lua_State)
//! ```
//!
//! A script is stopped by the hook, which Lua calls every so many instructions. `pcall` would catch its error, so once a
//! script is to stop, the hook is called at every instruction, and our `pcall` passes the error on.
#![expect(unsafe_code, reason = "Lua is a C library; only a few files of the crate call it")]

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

use mlua_sys as lua;
use resp::{Proto, Reply};

use crate::POLL_INSTRUCTIONS;
use crate::cjson;
use crate::host::{Called, Host, Poll};
use crate::library::Registering;
use crate::random::Random;
use crate::spare::Spare;
use crate::stack::{Fail, Native, Results, Stack};

/// A place in Lua's registry, which keeps a value alive.
pub(crate) type Ref = c_int;

/// Why a script is being unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is not.
    No,
    /// The host said so, and knows what to reply.
    Silent,
    /// With this error.
    Kill(&'static str),
}

/// What all functions of one virtual machine share.
pub(crate) struct Shared {
    /// Bytes that Lua has allocated.
    pub(crate) bytes: usize,
    /// What scripts may not exceed.
    pub(crate) bytes_max: usize,
    /// While a function of this crate runs nothing is refused.
    pub(crate) lenient: Cell<bool>,
    /// Whether the script is being unwound.
    pub(crate) stop: Stop,
    /// The dialect of replies to `redis.call`.
    pub(crate) proto: Proto,
    /// What `redis.call` was answered; kept for its capacity.
    pub(crate) reply: Reply,
    /// Settings of `cjson`, one per instance.
    pub(crate) cjson: Vec<cjson::Settings>,
    /// `math.random`
    pub(crate) random: Random,
    spare: Spare,
    /// What a library that loads has registered. None while none loads.
    pub(crate) registering: Option<Registering>,
    main: *mut lua::lua_State,
    host: Option<NonNull<dyn Host>>,
}

impl Shared {
    /// # Safety
    /// `state` must belong to a living [`State`].
    #[inline]
    pub(crate) unsafe fn of(state: *mut lua::lua_State) -> *mut Shared {
        let mut shared = ptr::null_mut();
        // SAFETY: the state lives; its allocator's argument is a `Shared`.
        unsafe { lua::lua_getallocf(state, &raw mut shared) };
        shared.cast()
    }

    /// True while the script is being unwound.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop != Stop::No
    }

    /// The host of the present run. None while nothing runs.
    pub(crate) fn host(&mut self) -> Option<&mut dyn Host> {
        // SAFETY: `State::call` puts a living host here and takes it out before it returns; functions of this crate borrow it
        // for one question at a time.
        self.host.map(|mut host| unsafe { host.as_mut() })
    }

    /// Runs one command. Its reply is in `self.reply`.
    pub(crate) fn call(&mut self, words: &[&[u8]]) -> Result<(), Fail> {
        self.reply.bytes.clear();
        self.reply.shared.clear();
        self.reply.proto = self.proto;
        let mut reply = std::mem::take(&mut self.reply);
        let called = self.host().map(|host| host.call(words, &mut reply));
        self.reply = reply;
        match called {
            Some(Called::Done) => Ok(()),
            Some(Called::Stop) => {
                self.stop = Stop::Silent;
                Err(Fail::Bare(STOPPED.as_bytes().into()))
            }
            None => Err(Fail::text("no command can be called now")),
        }
    }
}

/// The error that unwinds a script; nobody sees it.
const STOPPED: &str = "the script was stopped";

/// How a protected call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The results are on the stack.
    Done,
    /// The error is on the stack.
    Error,
}

/// One Lua state. Not `Send`: it belongs to the thread that made it.
pub(crate) struct State {
    main: *mut lua::lua_State,
    shared: *mut Shared,
}

impl State {
    /// An empty state: no library, no global.
    pub(crate) fn new(bytes_max: usize) -> State {
        let shared = Box::into_raw(Box::new(Shared {
            bytes: 0,
            bytes_max,
            lenient: Cell::new(true),
            stop: Stop::No,
            proto: Proto::Resp2,
            reply: Reply::default(),
            cjson: vec![cjson::Settings::default()],
            random: Random::default(),
            spare: Spare::default(),
            registering: None,
            main: ptr::null_mut(),
            host: None,
        }));
        // SAFETY: the allocator keeps its contract; `shared` lives until `drop`.
        let main = unsafe { lua::lua_newstate(allocate, shared.cast()) };
        assert!(!main.is_null(), "a lenient allocator refuses nothing");
        // SAFETY: nobody else holds it yet.
        unsafe { (*shared).main = main };
        let state = State { main, shared };
        state.arm(POLL_INSTRUCTIONS);
        state
    }

    /// What the functions share.
    pub(crate) fn shared(&mut self) -> &mut Shared {
        // SAFETY: nothing runs while `&mut self` is held by the caller, so nobody else borrows it.
        unsafe { &mut *self.shared }
    }

    /// Works on the stack outside of any call. The state is lenient whenever no script runs.
    pub(crate) fn stack(&mut self) -> Stack<'_> {
        // SAFETY: the state lives and is lenient.
        unsafe { Stack::above(self.main, 0) }
    }

    /// Empties the stack.
    pub(crate) fn clear(&mut self) {
        self.set_top(0);
    }

    /// Drops all values above the first `top`.
    pub(crate) fn set_top(&mut self, top: c_int) {
        // SAFETY: the state lives.
        unsafe { lua::lua_settop(self.main, top) }
    }

    /// Removes a value; what is above moves down.
    pub(crate) fn remove(&mut self, at: c_int) {
        // SAFETY: the callers pass indices of values.
        unsafe { lua::lua_remove(self.main, at) }
    }

    /// Pushes the metatable of the value at `at`, which must have one.
    pub(crate) fn push_metatable(&mut self, at: c_int) {
        // SAFETY: the callers pass indices of values.
        let there = unsafe { lua::lua_getmetatable(self.main, at) };
        assert!(there != 0, "it has a metatable");
    }

    /// Compiles code of our own and pushes the function.
    pub(crate) fn compile_trusted(&mut self, code: &[u8], name: &CStr) {
        assert_eq!(self.compile(code, name), Outcome::Done, "our own code compiles");
    }

    /// Calls code of our own, which does not fail.
    pub(crate) fn call_trusted(&mut self, arguments: c_int, results: c_int) {
        // SAFETY: the function and its arguments are on the stack.
        let status = unsafe { lua::lua_pcall(self.main, arguments, results, 0) };
        assert_eq!(status, lua::LUA_OK, "our own code does not fail");
    }

    /// Keeps the value on top of the stack alive, and pops it.
    pub(crate) fn keep(&mut self) -> Ref {
        // SAFETY: there is a value; lenient, so the allocation cannot fail.
        unsafe { lua::luaL_ref(self.main, lua::LUA_REGISTRYINDEX) }
    }

    /// Pushes a value that is kept.
    pub(crate) fn push_kept(&mut self, kept: Ref) {
        // SAFETY: the registry is a table.
        unsafe { lua::lua_rawgeti_(self.main, lua::LUA_REGISTRYINDEX, kept) }
    }

    /// Lets a value go.
    pub(crate) fn let_go(&mut self, kept: Ref) {
        // SAFETY: `kept` came from `keep`.
        unsafe { lua::luaL_unref(self.main, lua::LUA_REGISTRYINDEX, kept) }
    }

    /// Compiles Lua (never bytecode) and pushes the function, or the error's text.
    pub(crate) fn compile(&mut self, code: &[u8], name: &CStr) -> Outcome {
        self.shared().lenient.set(false);
        // SAFETY: the state lives.
        let status = unsafe { load(self.main, code, name) };
        self.shared().lenient.set(true);
        if status == lua::LUA_OK { Outcome::Done } else { Outcome::Error }
    }

    /// Calls the function that lies below its `arguments` on top of the stack, with `handler` for errors.
    /// `host` answers until this returns.
    pub(crate) fn call(
        &mut self,
        arguments: c_int,
        results: c_int,
        handler: Ref,
        host: &mut dyn Host,
    ) -> Outcome {
        // SAFETY: only the lifetime is removed; the host is taken out again before this returns.
        let erased: NonNull<dyn Host> = unsafe { std::mem::transmute(NonNull::from(host)) };
        let shared = self.shared();
        shared.host = Some(erased);
        shared.stop = Stop::No;
        self.push_kept(handler);
        // SAFETY: the function and its arguments are on the stack; the handler goes below them.
        let status = unsafe {
            let at = lua::lua_gettop(self.main) - arguments - 1;
            lua::lua_insert(self.main, at);
            (*self.shared).lenient.set(false);
            let status = lua::lua_pcall(self.main, arguments, results, at);
            (*self.shared).lenient.set(true);
            lua::lua_remove(self.main, at);
            status
        };
        let shared = self.shared();
        shared.host = None;
        if shared.stop != Stop::No {
            self.arm(POLL_INSTRUCTIONS);
        }
        if status == lua::LUA_OK { Outcome::Done } else { Outcome::Error }
    }

    /// Collects all garbage. Takes as long as there are objects.
    pub(crate) fn collect(&mut self) {
        // SAFETY: the state lives; there are no finalizers.
        unsafe { lua::lua_gc(self.main, lua::LUA_GCCOLLECT, 0) };
    }

    /// Gives memory that is free back to the system.
    pub(crate) fn give_back(&mut self) {
        self.shared().spare.give_back();
    }

    /// Opens Lua's own libraries, those that are harmless: base, table, string, math.
    pub(crate) fn open_libraries(&mut self) {
        let open: [(lua::lua_CFunction, &CStr); 4] = [
            (lua::luaopen_base, c""),
            (lua::luaopen_table, c"table"),
            (lua::luaopen_string, c"string"),
            (lua::luaopen_math, c"math"),
        ];
        for (function, name) in open {
            // SAFETY: lenient, so nothing in them can fail; they expect their name as argument.
            unsafe {
                lua::lua_pushcclosure(self.main, function, 0);
                lua::lua_pushstring_(self.main, name.as_ptr());
                lua::lua_call(self.main, 1, 0);
            }
        }
    }

    /// Opens `os`, of which scripts get a part.
    pub(crate) fn open_os(&mut self) {
        // SAFETY: lenient, so nothing in it can fail.
        unsafe {
            lua::lua_pushcclosure(self.main, lua::luaopen_os, 0);
            lua::lua_pushstring_(self.main, c"os".as_ptr());
            lua::lua_call(self.main, 1, 0);
        }
    }

    /// Pushes the table of globals of everything that is compiled from now on.
    pub(crate) fn push_globals(&mut self) {
        // SAFETY: the pseudo index is always valid.
        unsafe { lua::lua_pushvalue(self.main, lua::LUA_GLOBALSINDEX) }
    }

    /// Pops a table and makes it the globals.
    pub(crate) fn replace_globals(&mut self) {
        // SAFETY: the callers push a table.
        unsafe { lua::lua_replace(self.main, lua::LUA_GLOBALSINDEX) }
    }

    /// Pops a table and makes it the globals of the function that is then on top.
    pub(crate) fn set_environment(&mut self) {
        // SAFETY: the callers push a function and a table.
        unsafe { lua::lua_setfenv(self.main, -2) };
    }

    /// Pops a table and makes it the metatable of the value at `at`.
    pub(crate) fn set_metatable(&mut self, at: c_int) {
        // SAFETY: the callers push a table.
        unsafe { lua::lua_setmetatable(self.main, at) };
    }

    /// Pushes a function that is written against the C interface.
    pub(crate) fn push_raw(&mut self, function: lua::lua_CFunction, upvalues: c_int) {
        // SAFETY: lenient, so the allocation cannot fail; the callers push the upvalues.
        unsafe { lua::lua_pushcclosure(self.main, function, upvalues) }
    }

    /// Pushes a function of this crate.
    pub(crate) fn push_function<F: Native>(&mut self, function: F) {
        self.stack().push_function(function);
    }

    fn arm(&self, instructions: c_int) {
        // SAFETY: the state lives, and nothing runs.
        unsafe { lua::lua_sethook(self.main, Some(hook), lua::LUA_MASKCOUNT, instructions) };
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the state is closed once, and what the allocator uses outlives it.
        unsafe {
            lua::lua_close(self.main);
            drop(Box::from_raw(self.shared));
        }
    }
}

/// Loads a chunk that must not be bytecode. On top of the stack is the function or the error's text.
///
/// Lua keeps no reference to the chunk's name while it parses, so it is put on the stack: a collection must not free it.
///
/// # Safety
/// `state` must live. May raise if not lenient.
pub(crate) unsafe fn load(state: *mut lua::lua_State, code: &[u8], name: &CStr) -> c_int {
    if code.first() == Some(&lua::LUA_SIGNATURE[0]) {
        // SAFETY: the state lives. The text is what Lua says of such a character in a source.
        unsafe {
            lua::lua_pushfstring(
                state,
                c"%s:1: unexpected symbol near 'char(27)'".as_ptr(),
                shown(name).as_ptr(),
            )
        };
        return lua::LUA_ERRSYNTAX;
    }
    // SAFETY: the state lives; the buffer outlives the call. A protected call is inside.
    unsafe {
        lua::lua_pushstring_(state, name.as_ptr());
        let status = lua::luaL_loadbuffer(state, code.as_ptr().cast(), code.len(), name.as_ptr());
        lua::lua_remove(state, -2);
        status
    }
}

/// A chunk's name without its sigil.
fn shown(name: &CStr) -> &CStr {
    let bytes = name.to_bytes_with_nul();
    let text = if matches!(bytes[0], b'@' | b'=') { &bytes[1..] } else { bytes };
    CStr::from_bytes_with_nul(text).unwrap_or(c"?")
}

/// Lua's allocator. Refuses growth beyond the limit unless a function of this crate runs.
unsafe extern "C" fn allocate(
    shared: *mut c_void,
    block: *mut c_void,
    old_bytes: usize,
    new_bytes: usize,
) -> *mut c_void {
    // SAFETY: Lua passes what `lua_newstate` was given. Only fields are touched that no function borrows across a call to Lua.
    let shared = unsafe { &mut *shared.cast::<Shared>() };
    let old_bytes = if block.is_null() { 0 } else { old_bytes };
    let after = shared.bytes - old_bytes + new_bytes;
    if new_bytes > old_bytes && after > shared.bytes_max && !shared.lenient.get() {
        return ptr::null_mut();
    }
    // SAFETY: a block that is not null came from here with `old_bytes`, as Lua promises.
    let moved = unsafe { shared.spare.resize(block.cast(), old_bytes, new_bytes) };
    if moved.is_null() && new_bytes > 0 {
        assert!(!shared.lenient.get(), "the system has no memory");
        return ptr::null_mut();
    }
    shared.bytes = after;
    moved.cast()
}

/// Called by Lua every [`POLL_INSTRUCTIONS`] instructions, and at each one once the script is to stop.
unsafe extern "C-unwind" fn hook(state: *mut lua::lua_State, _: *mut lua::lua_Debug) {
    // SAFETY: Lua passes a living state; no function of this crate runs, so nobody borrows what is shared.
    let shared = unsafe { &mut *Shared::of(state) };
    if shared.stop == Stop::No {
        shared.stop = match shared.host().map_or(Poll::Go, |host| host.poll()) {
            Poll::Go => return,
            Poll::Stop => Stop::Silent,
            Poll::Kill(text) => Stop::Kill(text),
        };
    }
    let text = stop_text(shared.stop);
    let mask = lua::LUA_MASKCOUNT | lua::LUA_MASKLINE | lua::LUA_MASKCALL;
    // SAFETY: both states live. The script may be in a coroutine, and its main part must not go on either.
    unsafe {
        lua::lua_sethook(shared.main, Some(hook), mask, 1);
        lua::lua_sethook(state, Some(hook), mask, 1);
        shared.lenient.set(true);
        lua::lua_pushlstring_(state, text.as_ptr().cast(), text.len());
        shared.lenient.set(false);
        lua::lua_error(state);
    }
}

fn stop_text(stop: Stop) -> &'static str {
    match stop {
        Stop::Kill(text) => text,
        Stop::No | Stop::Silent => STOPPED,
    }
}

/// `pcall`, as a script sees it: of an error that is a table with a text in `err` only the text is given, and the error that
/// stops a script passes through.
///
/// # Safety
/// For Lua to call.
pub(crate) unsafe extern "C-unwind" fn pcall(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state, and 20 places beyond the arguments. Nothing here has anything to drop.
    unsafe {
        lua::luaL_checkany(state, 1);
        // The results may fill the stack to its end, so the first one is put there now.
        lua::lua_pushboolean(state, 1);
        lua::lua_insert(state, 1);
        if lua::lua_pcall(state, lua::lua_gettop(state) - 2, lua::LUA_MULTRET, 0) != lua::LUA_OK {
            if (*Shared::of(state)).is_stopping() {
                lua::lua_error(state);
            }
            lua::lua_pushboolean(state, 0);
            lua::lua_replace(state, 1);
            if lua::lua_type(state, -1) == lua::LUA_TTABLE {
                lua::lua_pushlstring_(state, c"err".as_ptr(), 3);
                lua::lua_rawget_(state, -2);
                // What is no text stays as one more result: scripts know it so.
                if lua::lua_isstring(state, -1) != 0 {
                    lua::lua_replace(state, -2);
                }
            }
        }
        lua::lua_gettop(state)
    }
}

/// Calls the function in the first upvalue with the arguments that are there.
///
/// # Safety
/// `state` must be running a closure whose first upvalue is a C function that uses no upvalues itself.
pub(crate) unsafe fn original(state: *mut lua::lua_State) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { lua::lua_tocfunction(state, lua::lua_upvalueindex(1)).map_or(0, |function| function(state)) }
}

/// What `redis.call` needs of the island: the words of a command, all of them strings on the stack, are passed to the host.
pub(crate) fn call_host(stack: &mut Stack<'_>) -> Results {
    let count = stack.top();
    let mut few: [&[u8]; 16] = [&[]; 16];
    let mut many = Vec::new();
    let words = if count as usize <= few.len() {
        &mut few[..count as usize]
    } else {
        many.resize(count as usize, [].as_slice());
        &mut many[..]
    };
    for (word, at) in words.iter_mut().zip(1..) {
        *word = stack.string(at).unwrap_or_default();
    }
    if stack.shared().stop != Stop::No {
        return Err(Fail::Bare(STOPPED.as_bytes().into()));
    }
    stack.shared().call(words).map(|()| 0)
}
