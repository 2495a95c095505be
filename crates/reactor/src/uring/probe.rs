//! One round trip through a fresh ring over a socket pair: what the engine relies on is tried, not inferred from version numbers. Some
//! kernels and sandboxes grant a ring whose operations fail.
#![allow(unsafe_code, reason = "operations refer to memory")]

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use io_uring::squeue::Flags;
use io_uring::{opcode, types};

use super::buffers::{Buffers, GROUP};
use super::ring::{Completion, Ring};

const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const CANCEL: u64 = 3;
const WAIT: Duration = Duration::from_secs(1);

/// Fails if a silent send, a multishot receive into a provided buffer, or its cancellation does not work.
pub(super) fn probe(ring: &mut Ring, buffers: &Buffers) -> io::Result<()> {
    let (here, there) = UnixStream::pair()?;
    let receive = opcode::RecvMulti::new(types::Fd(here.as_raw_fd()), GROUP).build().user_data(RECEIVE);
    // SAFETY: refers to no memory but the registered buffers.
    unsafe { ring.push(receive) };
    let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
    static BYTE: [u8; 1] = *b"?";
    let send = opcode::Send::new(types::Fd(there.as_raw_fd()), BYTE.as_ptr(), 1).flags(flags).build();
    // SAFETY: the byte is static.
    unsafe { ring.push(send.flags(Flags::SKIP_SUCCESS).user_data(SEND)) };
    let completions = wait(ring)?;
    let [received] = completions.as_slice() else { return Err(unexpected("a silent send", &completions)) };
    let Some(buffer) = received.buffer().filter(|_| received.result == 1) else {
        return Err(unexpected("a provided buffer", &completions));
    };
    buffers.take(buffer);
    buffers.give(buffer);
    if !received.more() {
        return Err(unexpected("a receive that goes on", &completions));
    }
    let cancel = opcode::AsyncCancel::new(RECEIVE).build();
    // SAFETY: a cancellation refers to no memory.
    unsafe { ring.push(cancel.flags(Flags::SKIP_SUCCESS).user_data(CANCEL)) };
    let completions = wait(ring)?;
    match completions.as_slice() {
        [end] if end.user_data == RECEIVE && end.result == -libc::ECANCELED && !end.more() => Ok(()),
        _ => Err(unexpected("a cancelled receive", &completions)),
    }
}

fn wait(ring: &mut Ring) -> io::Result<Vec<Completion>> {
    ring.enter(1, Some(WAIT))?;
    let mut completions = Vec::new();
    ring.collect(&mut completions)?;
    Ok(completions)
}

/// What was expected, and what came instead.
fn unexpected(what: &str, completions: &[Completion]) -> io::Error {
    let failure = completions.iter().find(|completion| completion.result < 0);
    let cause = failure.map_or("no error told".to_owned(), |failure| {
        io::Error::from_raw_os_error(-failure.result).to_string()
    });
    io::Error::new(io::ErrorKind::Unsupported, format!("no {what}: {cause}"))
}
