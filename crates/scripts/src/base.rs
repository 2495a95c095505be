//! Unsafe island: the base library as scripts see it, with tables that cannot be changed.
//!
//! Lua 5.1 has no read-only tables. A script sees empty proxies instead, whose metatables know the real ones:
//!
//! ```text
//! _G {}  --metatable--> __index: globals {string, KEYS, ...} --metatable--> __index: error "nonexistent global variable"
//!                       __newindex: error                    string {} --metatable--> __index: {find, ...}
//!                       MARK: globals                                                 __newindex: error, MARK: ..
//! ```
//!
//! `next`, `pairs`, `rawget` look through them; whatever would write behind `__newindex` refuses them. Other functions are
//! replaced because those of Lua 5.1.5 can be made to exhaust the C stack (patterns), read out of bounds (`unpack`), run
//! bytecode (`load`), or go on for hours without the hook.
//!
//! Functions here are written against the C interface where they pass their arguments on to the original: they hold nothing
//! to drop, so Lua may raise through them.
#![expect(
    unsafe_code,
    reason = "functions that pass their arguments on to Lua's own must not stand between it and its errors"
)]

use std::ffi::{CStr, c_int};
use std::ptr;

use mlua_sys as lua;

use crate::stack::{Fail, Results, Stack};
use crate::state::{Ref, Shared, State, load, original, pcall};

/// Key of the real table in a proxy's metatable: an address nobody else has.
static MARK: u8 = 0;

/// Quantifiers and captures in a pattern: each is one level of recursion in C, of about 250 bytes.
const PATTERN_DEPTH_MAX: usize = 2_000;

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// What stays of Lua's globals; `load`, `xpcall` and others are put in its place.
const GLOBALS: [&str; 20] = [
    "assert",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "rawequal",
    "select",
    "tonumber",
    "tostring",
    "type",
    "coroutine",
    "math",
    "string",
    "table",
    "_VERSION",
    "collectgarbage",
    "next",
    "rawget",
    "rawset",
    "setmetatable",
];

/// Opens the base library and the others of Lua in an empty state, and leaves the table of globals to be on the stack, to be
/// completed and then given to [`protect`].
pub(crate) fn open(state: &mut State) {
    state.open_libraries();
    let mut stack = state.stack();
    stack.push_table(0, 64).expect("a new state is far from its limit");
    state.push_globals();
    // From here on: the new globals at 1, Lua's own at 2.
    for name in GLOBALS {
        let mut stack = state.stack();
        stack.get_field(2, name);
        stack.set_field(1, name);
    }
    let replaced: [(&str, &str, lua::lua_CFunction); 14] = [
        ("", "next", next),
        ("", "rawget", next),
        ("", "rawset", refuse_first),
        ("", "setmetatable", refuse_first),
        ("", "collectgarbage", collectgarbage),
        ("", "unpack", unpack),
        ("table", "insert", refuse_first),
        ("table", "setn", refuse_first),
        ("string", "find", match_pattern),
        ("string", "match", match_pattern),
        ("string", "gmatch", match_pattern),
        ("string", "gfind", match_pattern),
        ("string", "gsub", match_pattern),
        ("string", "rep", repeat),
    ];
    for (library, name, function) in replaced {
        let mut stack = state.stack();
        if library.is_empty() {
            stack.push_copy(2);
        } else {
            stack.get_field(2, library);
        }
        stack.get_field(3, name);
        state.push_raw(function, 1);
        let mut stack = state.stack();
        stack.set_field(if library.is_empty() { 1 } else { 3 }, name);
        truncate(state, 2);
    }
    let mut stack = state.stack();
    stack.get_field(2, "next");
    stack.get_field(1, "next");
    state.push_raw(pairs, 2);
    state.stack().set_field(1, "pairs");
    state.push_raw(pcall, 0);
    state.stack().set_field(1, "pcall");
    state.push_raw(loadstring, 0);
    state.stack().set_field(1, "loadstring");
    only_clock(state);
    prelude(state);
    truncate(state, 1);
}

/// The table `os` has one function.
fn only_clock(state: &mut State) {
    state.open_os();
    let mut stack = state.stack();
    stack.get_field(2, "os");
    stack.get_field(3, "clock");
    stack.push_table(0, 1).expect("a new state is far from its limit");
    stack.insert(-2);
    stack.set_field(4, "clock");
    stack.set_field(1, "os");
    truncate(state, 2);
}

/// What is easier said in Lua: `load` reads all pieces first, so that it never sees bytecode; `xpcall` calls the handler when
/// the function has been left, because inside the hook is off and a handler could run for ever.
const PRELUDE: &[u8] = b"local pcall, loadstring, type, error, concat = ...
local function finish(handler, ok, ...)
  if ok then return true, ... end
  local fine, value = pcall(handler, ...)
  if fine then return false, value end
  return false, 'error in error handling'
end
local function load(reader, name)
  if type(reader) ~= 'function' then
    error(\"bad argument #1 to 'load' (function expected, got \" .. type(reader) .. ')', 2)
  end
  local pieces = {}
  while true do
    local fine, piece = pcall(reader)
    if not fine then return nil, piece end
    if piece == nil or piece == '' then break end
    if type(piece) ~= 'string' and type(piece) ~= 'number' then return nil, 'reader function must return a string' end
    pieces[#pieces + 1] = piece
  end
  return loadstring(concat(pieces), name or '=(load)')
end
local function xpcall(...)
  local called, handler = ...
  if select('#', ...) < 2 then error(\"bad argument #2 to 'xpcall' (value expected)\", 2) end
  return finish(handler, pcall(called))
end
return load, xpcall";

fn prelude(state: &mut State) {
    state.compile_trusted(PRELUDE, c"=prelude");
    state.push_raw(raw_pcall, 0);
    let mut stack = state.stack();
    stack.get_field(1, "loadstring");
    stack.get_field(2, "type");
    stack.get_field(2, "error");
    stack.get_field(2, "table");
    stack.get_field(-1, "concat");
    stack.remove(-2);
    state.call_trusted(5, 2);
    let mut stack = state.stack();
    stack.set_field(1, "xpcall");
    stack.set_field(1, "load");
}

/// `pcall` that gives errors as they are, but for the one that stops a script.
unsafe extern "C-unwind" fn raw_pcall(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state. Nothing here has anything to drop.
    unsafe {
        lua::lua_pushboolean(state, 1);
        lua::lua_insert(state, 1);
        if lua::lua_pcall(state, lua::lua_gettop(state) - 2, lua::LUA_MULTRET, 0) != lua::LUA_OK {
            if (*Shared::of(state)).is_stopping() {
                lua::lua_error(state);
            }
            lua::lua_pushboolean(state, 0);
            lua::lua_replace(state, 1);
        }
        lua::lua_gettop(state)
    }
}

fn truncate(state: &mut State, top: c_int) {
    state.set_top(top);
}

/// Makes a table that is a field of the one at `at` read-only.
pub(crate) fn protect_library(state: &mut State, at: c_int, name: &str) {
    state.stack().get_field(at, name);
    make_proxy(state, false);
    state.stack().set_field(at, name);
}

/// Makes the table of globals, alone on the stack, what scripts see as `_G`. Gives the real table, where `KEYS` and `ARGV` are
/// set. Libraries must be protected before.
pub(crate) fn protect(state: &mut State) -> Ref {
    // The metatable of all strings is not to be had either.
    let mut stack = state.stack();
    stack.push_short(b"");
    state.push_metatable(-1);
    let mut stack = state.stack();
    stack.push_table(0, 1).expect("a new state is far from its limit");
    stack.get_field(1, "string");
    stack.set_field(-2, "__index");
    make_proxy(state, false);
    state.stack().set_field(-2, "__metatable");
    truncate(state, 1);

    let mut stack = state.stack();
    stack.push_table(0, 1).expect("a new state is far from its limit");
    stack.push_function(missing_global);
    stack.set_field(-2, "__index");
    state.set_metatable(1);
    state.stack().push_copy(1);
    make_proxy(state, true);
    state.stack().push_copy(-1);
    state.stack().set_field(1, "_G");
    state.replace_globals();
    let globals = state.keep();
    state.clear();
    globals
}

/// Replaces the table on top by a proxy for it. `globals`: its metatable is shown.
pub(crate) fn make_proxy(state: &mut State, globals: bool) {
    let mut stack = state.stack();
    stack.push_table(0, 0).expect("a new state is far from its limit");
    stack.push_table(0, 4).expect("a new state is far from its limit");
    // real, proxy, metatable
    stack.push_copy(-3);
    stack.set_field(-2, "__index");
    stack.push_function(read_only);
    stack.set_field(-2, "__newindex");
    stack.push_light(&raw const MARK as usize);
    stack.push_copy(-4);
    stack.set(-3);
    if globals {
        let mut stack = state.stack();
        stack.push_table(0, 1).expect("a new state is far from its limit");
        stack.push_function(missing_global);
        stack.set_field(-2, "__index");
        make_proxy(state, false);
    } else {
        state.stack().push_bool(false);
    }
    state.stack().set_field(-2, "__metatable");
    state.set_metatable(-2);
    state.remove(-2);
}

/// What the table on top of the stack lacks is an error.
pub(crate) fn refuse_missing(state: &mut State) {
    let mut stack = state.stack();
    stack.push_table(0, 1).expect("a new state is far from its limit");
    stack.push_function(missing_global);
    stack.set_field(-2, "__index");
    state.set_metatable(-2);
}

fn read_only(_: &mut Stack<'_>) -> Results {
    Err(Fail::text(READ_ONLY))
}

fn missing_global(stack: &mut Stack<'_>) -> Results {
    stack.push_copy(2);
    let Some(name) = stack.text(-1) else {
        return Err(Fail::text("Second argument to luaProtectedTableError must be a string or number"));
    };
    let text = [b"Script attempted to access nonexistent global variable '", name, b"'"].concat();
    Err(Fail::Text(text.into()))
}

/// If the first argument is a proxy, pushes the real table.
unsafe fn push_real(state: *mut lua::lua_State) -> bool {
    // SAFETY: Lua passes a living state with room for more; only raw accesses.
    unsafe {
        if lua::lua_type(state, 1) != lua::LUA_TTABLE || lua::lua_getmetatable(state, 1) == 0 {
            return false;
        }
        lua::lua_pushlightuserdata(state, (&raw const MARK).cast_mut().cast());
        lua::lua_rawget_(state, -2);
        lua::lua_remove(state, -2);
        if lua::lua_type(state, -1) == lua::LUA_TTABLE {
            return true;
        }
        lua::lua_settop(state, -2);
        false
    }
}

/// `next` and `rawget`: of a proxy, the real table is meant.
unsafe extern "C-unwind" fn next(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state; the first upvalue is the original.
    unsafe {
        if push_real(state) {
            lua::lua_replace(state, 1);
        }
        original(state)
    }
}

/// `pairs`: our `next`, the second upvalue, for proxies, Lua's own for everything else.
unsafe extern "C-unwind" fn pairs(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state.
    unsafe {
        lua::luaL_checktype(state, 1, lua::LUA_TTABLE);
        let proxy = push_real(state);
        lua::lua_settop(state, 1);
        lua::lua_pushvalue(state, lua::lua_upvalueindex(if proxy { 2 } else { 1 }));
        lua::lua_insert(state, 1);
        lua::lua_pushnil(state);
        3
    }
}

/// Functions that change their first argument.
unsafe extern "C-unwind" fn refuse_first(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state; the first upvalue is the original.
    unsafe {
        if push_real(state) {
            lua::lua_pushlstring_(state, READ_ONLY.as_ptr().cast(), READ_ONLY.len());
            lua::lua_error(state);
        }
        original(state)
    }
}

/// `find`, `match`, `gmatch`, `gsub`: they recurse in C once per quantifier or capture of the pattern.
unsafe extern "C-unwind" fn match_pattern(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state; the first upvalue is the original.
    unsafe {
        let mut len = 0;
        let pattern = lua::lua_tolstring(state, 2, &raw mut len).cast::<u8>();
        if len > PATTERN_DEPTH_MAX && !pattern.is_null() {
            let pattern = std::slice::from_raw_parts(pattern, len);
            let depth =
                pattern.iter().filter(|byte| matches!(byte, b'*' | b'+' | b'-' | b'?' | b'(')).count();
            if depth > PATTERN_DEPTH_MAX {
                return lua::luaL_error(state, c"pattern too complex".as_ptr());
            }
        }
        original(state)
    }
}

/// `string.rep`: what cannot be held is refused before, and nothing is repeated in no time.
unsafe extern "C-unwind" fn repeat(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state; the first upvalue is the original.
    unsafe {
        let mut len = 0;
        lua::luaL_checklstring(state, 1, &raw mut len);
        let count = lua::luaL_checkinteger(state, 2);
        let shared = Shared::of(state);
        if len == 0 || count <= 0 {
            lua::lua_pushlstring_(state, c"".as_ptr(), 0);
            return 1;
        }
        if len.saturating_mul(count as usize) > (*shared).bytes_max {
            lua::lua_pushlstring_(state, c"not enough memory".as_ptr(), 17);
            lua::lua_error(state);
        }
        original(state)
    }
}

/// `unpack`: the original computes the number of values in 32 bits.
unsafe extern "C-unwind" fn unpack(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state; the first upvalue is the original.
    unsafe {
        if lua::lua_gettop(state) > 1 {
            let first = lua::luaL_optinteger(state, 2, 1);
            let last = match lua::lua_type(state, 3) {
                lua::LUA_TNUMBER | lua::LUA_TSTRING => lua::luaL_checkinteger(state, 3),
                _ => first,
            };
            let narrow = c_int::MIN as i64..=c_int::MAX as i64;
            if !narrow.contains(&first) || !narrow.contains(&last) || last - first >= 1_000_000 {
                return lua::luaL_error(state, c"too many results to unpack".as_ptr());
            }
        }
        original(state)
    }
}

/// `collectgarbage`: only what has no effect on the scripts that follow.
unsafe extern "C-unwind" fn collectgarbage(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state; the first upvalue is the original.
    unsafe {
        let option = lua::luaL_optlstring(state, 1, c"collect".as_ptr(), ptr::null_mut());
        let option = CStr::from_ptr(option).to_bytes();
        if matches!(option, b"stop" | b"restart" | b"setpause" | b"setstepmul") {
            lua::lua_pushinteger(state, 0);
            return 1;
        }
        original(state)
    }
}

/// `loadstring`: text only.
unsafe extern "C-unwind" fn loadstring(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state; the string stays on the stack while it is parsed.
    unsafe {
        let mut len = 0;
        let code = lua::luaL_checklstring(state, 1, &raw mut len);
        let name = lua::luaL_optlstring(state, 2, code, ptr::null_mut());
        let code = std::slice::from_raw_parts(code.cast::<u8>(), len);
        if load(state, code, CStr::from_ptr(name)) == lua::LUA_OK {
            return 1;
        }
        lua::lua_pushnil(state);
        lua::lua_insert(state, -2);
        2
    }
}
