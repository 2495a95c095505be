//! Unsafe island: Lua's stack for functions written in Rust, behind methods that cannot raise.
//!
//! Lua reports errors by `longjmp`, which must not pass over a Rust frame that has something to drop. Hence two rules, kept
//! here and nowhere else: while a Rust function runs, the allocator refuses nothing (`Shared::lenient`; what would exceed
//! the limit is refused by the methods instead), and only raw accesses are offered, which call no metamethod. A function
//! returns its error; the trampoline raises it when everything is dropped.
//!
//! HOT: `redis.call` and the conversions go through here.
#![expect(unsafe_code, reason = "Lua is a C library; only a few files of the crate call it")]

use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::slice;

use mlua_sys as lua;

use crate::state::Shared;

/// Why a function called from Lua fails.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The memory limit would be exceeded.
    Memory,
    /// An error string; where it happened is put in front.
    Text(Cow<'static, [u8]>),
    /// An error string as it is.
    Bare(Cow<'static, [u8]>),
    /// "bad argument #.. to '..' (..)". Arguments count from 1.
    Argument(c_int, Cow<'static, [u8]>),
    /// The error is the value on top of the stack.
    Value,
}

impl Fail {
    /// [`Fail::Text`] of a constant.
    pub(crate) fn text(text: &'static str) -> Fail {
        Fail::Text(Cow::Borrowed(text.as_bytes()))
    }
}

/// What a function called from Lua gives: how many values on top of the stack are its results.
pub(crate) type Results = Result<c_int, Fail>;

/// The types of Lua's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    Nil,
    Bool,
    Light,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

impl Kind {
    /// As `type()` says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::None => "no value",
            Kind::Nil => "nil",
            Kind::Bool => "boolean",
            Kind::Light | Kind::Userdata => "userdata",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Function => "function",
            Kind::Thread => "thread",
        }
    }
}

/// The stack of a running function. Indices are Lua's: from 1 upwards, or from -1 downwards.
///
/// Bytes of strings have the lifetime `'s` of the call: its arguments stay where they are (`drop_top` refuses to take
/// them), so strings that are reached from them stay too.
pub(crate) struct Stack<'s> {
    state: *mut lua::lua_State,
    floor: c_int,
    call: PhantomData<&'s ()>,
}

impl<'s> Stack<'s> {
    /// # Safety
    /// `state` must be a living state of a [`crate::state::State`], lenient for as long as this lives.
    pub(crate) unsafe fn new(state: *mut lua::lua_State) -> Stack<'s> {
        // SAFETY: `state` lives, as the caller promises.
        unsafe { Stack::above(state, lua::lua_gettop(state)) }
    }

    /// A stack that keeps the first `floor` values only.
    ///
    /// # Safety
    /// As for [`Stack::new`]; and strings are not used after their values have been dropped.
    pub(crate) unsafe fn above(state: *mut lua::lua_State, floor: c_int) -> Stack<'s> {
        Stack { state, floor, call: PhantomData }
    }

    /// What all functions of this virtual machine share.
    #[inline]
    pub(crate) fn shared(&mut self) -> &mut Shared {
        // SAFETY: the state belongs to a `State`; the borrow ends before this stack is used again.
        unsafe { &mut *Shared::of(self.state) }
    }

    /// Number of values: right at the start the number of arguments.
    #[inline]
    pub(crate) fn top(&self) -> c_int {
        // SAFETY: the state lives.
        unsafe { lua::lua_gettop(self.state) }
    }

    /// Drops values from the top. Never an argument.
    #[inline]
    pub(crate) fn drop_top(&mut self, count: c_int) {
        assert!(count >= 0 && self.top() - count >= self.floor, "arguments stay");
        // SAFETY: there are that many values.
        unsafe { lua::lua_settop(self.state, -count - 1) }
    }

    /// Makes room for `more` values beyond the 20 that a function always has. False: Lua's limit is reached.
    pub(crate) fn reserve(&mut self, more: c_int) -> bool {
        // SAFETY: lenient, so growing cannot fail.
        unsafe { lua::lua_checkstack(self.state, more) != 0 }
    }

    /// The type of a value.
    #[inline]
    pub(crate) fn kind(&self, at: c_int) -> Kind {
        // SAFETY: any index is acceptable.
        match unsafe { lua::lua_type(self.state, at) } {
            lua::LUA_TNIL => Kind::Nil,
            lua::LUA_TBOOLEAN => Kind::Bool,
            lua::LUA_TLIGHTUSERDATA => Kind::Light,
            lua::LUA_TNUMBER => Kind::Number,
            lua::LUA_TSTRING => Kind::String,
            lua::LUA_TTABLE => Kind::Table,
            lua::LUA_TFUNCTION => Kind::Function,
            lua::LUA_TUSERDATA => Kind::Userdata,
            lua::LUA_TTHREAD => Kind::Thread,
            _ => Kind::None,
        }
    }

    /// Whether a value counts as true.
    pub(crate) fn truth(&self, at: c_int) -> bool {
        // SAFETY: any index is acceptable.
        unsafe { lua::lua_toboolean(self.state, at) != 0 }
    }

    /// A number, or a string that reads as one.
    pub(crate) fn number(&self, at: c_int) -> Option<f64> {
        // SAFETY: any index is acceptable.
        unsafe { (lua::lua_isnumber(self.state, at) != 0).then(|| lua::lua_tonumber(self.state, at)) }
    }

    /// A string; a number is none.
    #[inline]
    pub(crate) fn string(&self, at: c_int) -> Option<&'s [u8]> {
        if self.kind(at) != Kind::String {
            return None;
        }
        let mut len = 0;
        // SAFETY: it is a string, so nothing is converted; the type's description says how long its bytes stay.
        unsafe {
            let bytes = lua::lua_tolstring(self.state, at, &raw mut len);
            Some(slice::from_raw_parts(bytes.cast(), len))
        }
    }

    /// A string; a number becomes one, where it is, as `tostring` writes it.
    pub(crate) fn text(&mut self, at: c_int) -> Option<&'s [u8]> {
        if self.kind(at) == Kind::Number {
            // SAFETY: converts in place; lenient, so the allocation cannot fail.
            unsafe { lua::lua_tolstring(self.state, at, std::ptr::null_mut()) };
        }
        self.string(at)
    }

    /// An argument that must be a string or a number.
    pub(crate) fn text_argument(&mut self, at: c_int) -> Result<&'s [u8], Fail> {
        self.text(at).ok_or_else(|| self.expected(at, "string"))
    }

    /// An argument that must be a number or read as one.
    pub(crate) fn number_argument(&mut self, at: c_int) -> Result<f64, Fail> {
        self.number(at).ok_or_else(|| self.expected(at, "number"))
    }

    /// "number expected, got nil"
    pub(crate) fn expected(&self, at: c_int, wanted: &str) -> Fail {
        Fail::Argument(at, format!("{wanted} expected, got {}", self.kind(at).name()).into_bytes().into())
    }

    /// What a light userdata points to.
    pub(crate) fn light(&self, at: c_int) -> Option<usize> {
        // SAFETY: the type is checked; the address is not used as one.
        (self.kind(at) == Kind::Light).then(|| unsafe { lua::lua_touserdata(self.state, at) } as usize)
    }

    /// An error if `bytes` more would exceed the limit of memory.
    #[inline]
    pub(crate) fn room_for(&mut self, bytes: usize) -> Result<(), Fail> {
        let shared = self.shared();
        if shared.bytes.saturating_add(bytes) > shared.bytes_max { Err(Fail::Memory) } else { Ok(()) }
    }

    /// Pushes nil.
    #[inline]
    pub(crate) fn push_nil(&mut self) {
        // SAFETY: there is room: see `reserve`.
        unsafe { lua::lua_pushnil(self.state) }
    }

    /// Pushes a truth value.
    #[inline]
    pub(crate) fn push_bool(&mut self, value: bool) {
        // SAFETY: there is room.
        unsafe { lua::lua_pushboolean(self.state, value.into()) }
    }

    /// Pushes a number.
    #[inline]
    pub(crate) fn push_number(&mut self, value: f64) {
        // SAFETY: there is room.
        unsafe { lua::lua_pushnumber(self.state, value) }
    }

    /// Pushes a light userdata: only its identity matters.
    pub(crate) fn push_light(&mut self, address: usize) {
        // SAFETY: there is room; nothing follows the address.
        unsafe { lua::lua_pushlightuserdata(self.state, address as *mut c_void) }
    }

    /// Pushes a string.
    #[inline]
    pub(crate) fn push_string(&mut self, bytes: &[u8]) -> Result<(), Fail> {
        self.room_for(bytes.len())?;
        self.push_short(bytes);
        Ok(())
    }

    /// Pushes a string that is known to be short.
    #[inline]
    pub(crate) fn push_short(&mut self, bytes: &[u8]) {
        // SAFETY: there is room; lenient, so the allocation cannot fail.
        unsafe { lua::lua_pushlstring_(self.state, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Pushes a copy of a value.
    #[inline]
    pub(crate) fn push_copy(&mut self, at: c_int) {
        // SAFETY: there is room; the callers pass indices of values.
        unsafe { lua::lua_pushvalue(self.state, at) }
    }

    /// Pushes an empty table with room for elements and fields.
    #[inline]
    pub(crate) fn push_table(&mut self, elements: usize, fields: usize) -> Result<(), Fail> {
        // An element takes 16 bytes, a field 40.
        self.room_for(elements.saturating_mul(16).saturating_add(fields.saturating_mul(40)))?;
        let limit = |count: usize| c_int::try_from(count).unwrap_or(c_int::MAX).min(1 << 26);
        // SAFETY: there is room; lenient, so the allocation cannot fail; sizes are far from Lua's own limits.
        unsafe { lua::lua_createtable(self.state, limit(elements), limit(fields)) };
        Ok(())
    }

    /// Pushes a function of this crate.
    pub(crate) fn push_function<F: Native>(&mut self, _: F) {
        // SAFETY: there is room; lenient, so the allocation cannot fail.
        unsafe { lua::lua_pushcclosure(self.state, enter::<F>, 0) }
    }

    /// Pops a value and pushes a function of this crate that has it as its upvalue.
    pub(crate) fn push_closure<F: Native>(&mut self, _: F) {
        // SAFETY: the value is there; lenient, so the allocation cannot fail.
        unsafe { lua::lua_pushcclosure(self.state, enter::<F>, 1) }
    }

    /// The upvalue of the running function, if it is a number.
    pub(crate) fn upvalue_number(&self) -> f64 {
        // SAFETY: the pseudo index is acceptable in any native function.
        unsafe { lua::lua_tonumber(self.state, lua::lua_upvalueindex(1)) }
    }

    /// Moves the top value to a place of an argument or local.
    pub(crate) fn replace(&mut self, at: c_int) {
        // SAFETY: the callers pass indices of values.
        unsafe { lua::lua_replace(self.state, at) }
    }

    /// Removes a value; what is above moves down. Never an argument.
    pub(crate) fn remove(&mut self, at: c_int) {
        assert!(at < 0 || at > self.floor, "arguments stay");
        // SAFETY: the callers pass indices of values.
        unsafe { lua::lua_remove(self.state, at) }
    }

    /// Moves the top value below others.
    pub(crate) fn insert(&mut self, at: c_int) {
        // SAFETY: the callers pass indices of values.
        unsafe { lua::lua_insert(self.state, at) }
    }

    fn assert_table(&self, at: c_int) {
        assert!(self.kind(at) == Kind::Table, "only tables have elements");
    }

    /// Pushes element `index` of a table.
    #[inline]
    pub(crate) fn get_index(&mut self, table: c_int, index: c_int) {
        self.assert_table(table);
        // SAFETY: it is a table; raw accesses do not raise.
        unsafe { lua::lua_rawgeti_(self.state, table, index) }
    }

    /// Pushes a field of a table.
    pub(crate) fn get_field(&mut self, table: c_int, name: &str) {
        self.assert_table(table);
        self.push_short(name.as_bytes());
        // The push has moved what is counted from the top.
        let table = if table < 0 && table > lua::LUA_REGISTRYINDEX { table - 1 } else { table };
        // SAFETY: it is a table; raw accesses do not raise.
        unsafe { lua::lua_rawget_(self.state, table) }
    }

    /// Pops a value and makes it element `index` of a table.
    #[inline]
    pub(crate) fn set_index(&mut self, table: c_int, index: c_int) {
        self.assert_table(table);
        // SAFETY: it is a table, the key no NaN; lenient, so the allocation cannot fail.
        unsafe { lua::lua_rawseti_(self.state, table, index) }
    }

    /// Pops a value and makes it a field of a table.
    pub(crate) fn set_field(&mut self, table: c_int, name: &str) {
        self.push_short(name.as_bytes());
        self.insert(-2);
        let table = if table < 0 && table > lua::LUA_REGISTRYINDEX { table - 1 } else { table };
        self.set(table);
    }

    /// Pops a value and its key below, and sets them in a table (counted with both on the stack). False: no such key can be,
    /// it is nil or not a number.
    pub(crate) fn set(&mut self, table: c_int) -> bool {
        self.assert_table(table);
        let bad = match self.kind(-2) {
            Kind::Nil => true,
            Kind::Number => self.number(-2).is_none_or(f64::is_nan),
            _ => false,
        };
        if bad {
            self.drop_top(2);
            return false;
        }
        // SAFETY: it is a table and the key acceptable; lenient, so the allocation cannot fail.
        unsafe { lua::lua_rawset(self.state, table) };
        true
    }

    /// Replaces the key on top by the next key and its value; false, with the key gone, at the end. The key must be one that
    /// this gave, or nil to begin.
    pub(crate) fn next(&mut self, table: c_int) -> bool {
        self.assert_table(table);
        // SAFETY: it is a table, and the callers change it not meanwhile, so the key is found.
        unsafe { lua::lua_next(self.state, table) != 0 }
    }

    /// Keeps the value on top of the stack alive, and pops it.
    pub(crate) fn keep(&mut self) -> crate::state::Ref {
        // SAFETY: there is a value; lenient, so the allocation cannot fail.
        unsafe { lua::luaL_ref(self.state, lua::LUA_REGISTRYINDEX) }
    }

    /// Lets a value go.
    pub(crate) fn let_go(&mut self, kept: crate::state::Ref) {
        // SAFETY: `kept` came from `keep`.
        unsafe { lua::luaL_unref(self.state, lua::LUA_REGISTRYINDEX, kept) }
    }

    /// Where the function at `level` is: 0 is the running function, 1 its caller. None beyond the last.
    pub(crate) fn position(&mut self, level: c_int) -> Option<Position> {
        // SAFETY: all zeros are values of its fields; Lua fills what is asked for, and its strings end in a zero byte.
        unsafe {
            let mut record: lua::lua_Debug = std::mem::zeroed();
            if lua::lua_getstack(self.state, level, &raw mut record) == 0 {
                return None;
            }
            lua::lua_getinfo(self.state, c"Sl".as_ptr(), &raw mut record);
            let text = |text: *const c_char| std::ffi::CStr::from_ptr(text).to_bytes();
            let native = text(record.what) == b"C";
            Some(Position { native, source: text(record.source).to_vec(), line: record.currentline })
        }
    }

    /// Pushes what an error says, for the trampoline to raise. The number tells it how.
    fn push_failure(&mut self, fail: Fail) -> c_int {
        match fail {
            Fail::Memory => self.push_short(b"not enough memory"),
            Fail::Bare(text) => self.push_short(&text),
            Fail::Value => {}
            Fail::Text(text) => {
                // SAFETY: there is room; lenient, so the allocations cannot fail.
                unsafe { lua::luaL_where(self.state, 1) };
                self.push_short(&text);
                // SAFETY: two strings are on top.
                unsafe { lua::lua_concat(self.state, 2) };
            }
            Fail::Argument(at, text) => {
                self.push_short(&text);
                return ARGUMENT - at;
            }
        }
        THROW
    }
}

/// A line of a script.
pub(crate) struct Position {
    /// True in a function that is not written in Lua.
    pub(crate) native: bool,
    /// The chunk's name with its sigil ("@user_script").
    pub(crate) source: Vec<u8>,
    /// Counted from 1; -1 in native functions.
    pub(crate) line: c_int,
}

/// A function that Lua can call. Only functions of this crate, which have no state: see [`enter`].
pub(crate) trait Native: Fn(&mut Stack<'_>) -> Results + Copy + 'static {}

impl<F: Fn(&mut Stack<'_>) -> Results + Copy + 'static> Native for F {}

/// Raise what is on top of the stack.
const THROW: c_int = -1;
/// Raise that argument `ARGUMENT - code` is bad.
const ARGUMENT: c_int = -10;

/// How Lua calls a function of this crate: nothing here has anything to drop when the error is raised.
unsafe extern "C-unwind" fn enter<F: Native>(state: *mut lua::lua_State) -> c_int {
    // SAFETY: Lua passes a living state.
    let code = unsafe { attempt::<F>(state) };
    match code {
        0.. => code,
        // SAFETY: the error is on top of the stack.
        THROW => unsafe { lua::lua_error(state) },
        _ => {
            // SAFETY: the text is on top of the stack; what follows raises.
            unsafe { lua::luaL_argerror(state, ARGUMENT - code, lua::lua_tostring(state, -1)) }
        }
    }
}

/// Calls a function in lenient mode. A negative result says how to raise its error.
unsafe fn attempt<F: Native>(state: *mut lua::lua_State) -> c_int {
    const { assert!(size_of::<F>() == 0, "a function of this crate has no state") };
    // SAFETY: a value without size needs no bytes, and one of this type was shown to `push_function`.
    let function: F = unsafe { std::mem::zeroed() };
    // SAFETY: Lua passes a living state.
    let shared = unsafe { Shared::of(state) };
    // SAFETY: the cell lives as long as the state.
    let outer = unsafe { (*shared).lenient.replace(true) };
    // SAFETY: the state is lenient now.
    let mut stack = unsafe { Stack::new(state) };
    let code = match function(&mut stack) {
        Ok(results) => results,
        Err(fail) => stack.push_failure(fail),
    };
    // SAFETY: as above.
    unsafe { (*shared).lenient.set(outer) };
    code
}
