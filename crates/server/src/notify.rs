//! A word to systemd: the protocol of sd_notify(3), one datagram to the socket that the environment names.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const SOCKET: &str = "NOTIFY_SOCKET";

/// Whether somebody listens.
pub fn is_wanted() -> bool {
    std::env::var_os(SOCKET).is_some_and(|path| !path.is_empty())
}

/// Tells the supervisor `state`, such as `READY=1`.
pub fn tell(state: &str) {
    let Some(path) = std::env::var_os(SOCKET) else { return };
    if let Err(error) = send(path.as_bytes(), state) {
        log::warn!("Telling systemd '{}' failed: {error}", state.trim_end());
    }
}

fn send(path: &[u8], state: &str) -> io::Result<()> {
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_arrives_at_either_kind_of_socket() {
        let path = std::env::temp_dir().join(format!("darter-notify-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str().as_bytes(), "READY=1").unwrap();
        let mut buffer = [0; 32];
        let len = listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"READY=1");
        std::fs::remove_file(&path).unwrap();
        let name = format!("darter-notify-{}", std::process::id());
        let listener = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(format!("@{name}").as_bytes(), "STOPPING=1").unwrap();
        let len = listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"STOPPING=1");
        assert!(send(b"/nonexistent/socket", "READY=1").is_err());
    }
}
