//! Libraries of scripts that read bytes of others: `cjson.decode`, `cmsgpack.unpack`, `struct.unpack`.

use resp::Reply;
use scripts::{Called, Host, Level, Limits, Poll, Ran, Script, Vm};

/// Any bytes are decoded or refused, in memory that follows their number and not what they claim; what was decoded and encoded decodes
/// again. Of `struct` the bytes up to the first 0xfe are the format.
pub fn libraries(data: &[u8]) {
    thread_local! {
        static MACHINE: std::cell::RefCell<(Vm, Script)> = std::cell::RefCell::new(machine());
    }
    let divider = data.iter().position(|&byte| byte == 0xfe).unwrap_or(data.len() / 2);
    let (format, text) = (&data[..divider], data.get(divider + 1..).unwrap_or(&[]));
    MACHINE.with_borrow_mut(|(vm, script)| {
        let mut reply = Reply::default();
        let ran = vm.run(script, &[], &[data, format, text], &mut Nothing, &mut reply);
        let said = String::from_utf8_lossy(&reply.bytes);
        assert_eq!(ran, Ran::Done, "{said}");
        assert!(!said.contains("not enough memory"), "{} bytes take too much memory", data.len());
    });
}

/// A machine whose limit is far above what inputs of the tests may take.
fn machine() -> (Vm, Script) {
    const SOURCE: &[u8] = b"
        local data, format, text = unpack(ARGV)
        local errors = {}
        local function try(...)
          local fine, value = pcall(...)
          if not fine then errors[#errors + 1] = tostring(value) end
          return fine, value
        end
        local fine, value = try(cjson.decode, data)
        if fine then
          cjson.encode_invalid_numbers(true)
          local encoded, json = try(cjson.encode, value)
          if encoded then cjson.decode(json) end
        end
        fine, value = try(cmsgpack.unpack, data)
        if fine then cmsgpack.unpack(cmsgpack.pack(value)) end
        try(cmsgpack.unpack_one, data)
        try(struct.size, format)
        try(struct.unpack, format, text)
        try(struct.pack, format, 1, 'a', 2, 3)
        return errors";
    let mut vm = Vm::new(Limits { memory_bytes_max: 16 << 20, ..Limits::default() });
    let script = vm.check(SOURCE).unwrap_or_else(|_| panic!("the script compiles"));
    (vm, script)
}

/// A server without commands.
struct Nothing;

impl Host for Nothing {
    fn call(&mut self, _: &[&[u8]], reply: &mut Reply) -> Called {
        reply.error("ERR no commands here");
        Called::Done
    }

    fn acl_allows(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn poll(&mut self) -> Poll {
        Poll::Go
    }
}
