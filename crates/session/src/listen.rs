//! Listening sockets, as `bind`, `port`, `unixsocket` and `tcp-backlog` ask for them.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::config::{Bind, Config, ListenSettings, os_text};
use crate::worker::Worker;

/// An address that cannot be listened on, and why.
#[derive(Debug)]
pub struct ListenError {
    /// `127.0.0.1:6379`, or the path of a Unix socket.
    pub place: String,
    pub source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Could not listen on {}: {}", self.place, os_text(&self.source))
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Open and listening sockets.
#[derive(Debug, Default)]
pub struct Listeners {
    pub tcp: Vec<OwnedFd>,
    pub unix: Option<OwnedFd>,
}

/// The listeners of a thread, as its reactor knows them.
#[derive(Debug, Default)]
pub struct Tokens {
    tcp: Vec<u32>,
    unix: Option<u32>,
    /// The token of the next one; none is used twice.
    next: u32,
}

impl Worker {
    /// Accepts connections from these sockets.
    pub fn listen(&mut self, listeners: Listeners) -> io::Result<()> {
        if let Some(socket) = listeners.unix {
            self.listeners.unix = Some(self.listen_on(socket)?);
        }
        for socket in listeners.tcp {
            let token = self.listen_on(socket)?;
            self.listeners.tcp.push(token);
        }
        Ok(())
    }

    fn listen_on(&mut self, socket: OwnedFd) -> io::Result<u32> {
        let token = self.listeners.next;
        self.listeners.next += 1;
        self.reactor.listen(socket, token)?;
        Ok(token)
    }

    /// Listens at these TCP addresses instead of the present ones. If that fails, the present ones stay.
    pub(crate) fn listen_at(&mut self, wanted: &ListenSettings) -> Result<(), String> {
        // First, because a new address may take the place of an old one (`*` and 127.0.0.1 of the same port).
        for token in std::mem::take(&mut self.listeners.tcp) {
            self.reactor.stop_listening(token);
        }
        let result = self.open_listeners(wanted);
        if result.is_err()
            && let Err(error) = self.open_listeners(&self.config.listen_settings())
        {
            log::error!("Listening again at the former addresses failed: {error}");
        }
        result
    }

    /// Accepts no more connections and gives the addresses back.
    pub(crate) fn close_listeners(&mut self) {
        let Tokens { tcp, unix, .. } = &mut self.listeners;
        for token in std::mem::take(tcp).into_iter().chain(unix.take()) {
            self.reactor.stop_listening(token);
        }
        // The reactor closes its sockets by the end of a turn; what that turn finds waits for the next one.
        if let Err(error) = self.reactor.turn(Some(std::time::Duration::ZERO)) {
            log::warn!("Closing the listeners failed: {error}");
        }
    }

    fn open_listeners(&mut self, wanted: &ListenSettings) -> Result<(), String> {
        let tcp = tcp(wanted).map_err(|error| error.to_string())?;
        self.listen(Listeners { tcp, unix: None }).map_err(|error| error.to_string())
    }
}

/// Opens every TCP listener. An address marked optional is left out when this machine does not have it; one that is taken is an error
/// even then, as in Valkey. No address at all, or port 0, gives none.
pub fn tcp(wanted: &ListenSettings) -> Result<Vec<OwnedFd>, ListenError> {
    let mut sockets = Vec::new();
    if wanted.port == 0 {
        return Ok(sockets);
    }
    for bind in &wanted.bind {
        let place = || format!("{}:{}", bind.address, wanted.port);
        let result = address(bind, wanted.port).and_then(|address| tcp_socket(address, wanted.backlog));
        match result {
            Ok(socket) => sockets.push(socket),
            Err(error) if bind.optional && is_not_here(&error) => {}
            Err(source) => return Err(ListenError { place: place(), source }),
        }
    }
    Ok(sockets)
}

/// Opens the Unix socket, if one is wanted. What an earlier server left behind at its path is removed; a socket that somebody listens
/// on, or a file of another kind, is not.
pub fn unix(config: &Config) -> Result<Option<OwnedFd>, ListenError> {
    let path = &config.unixsocket;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    match unix_socket(path, config) {
        Ok(socket) => Ok(Some(socket)),
        Err(source) => Err(ListenError { place: path.display().to_string(), source }),
    }
}

fn unix_socket(path: &Path, config: &Config) -> io::Result<OwnedFd> {
    let address = SockAddr::unix(path)?;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    if is_socket {
        if Socket::new(Domain::UNIX, Type::STREAM, None)?.connect(&address).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    let group = group_id(&config.unixsocketgroup)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&address)?;
    if config.unixsocketperm != 0 {
        // Nobody can connect before `listen` below.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(config.unixsocketperm))?;
    }
    if let Some(group) = group {
        std::os::unix::fs::chown(path, None, Some(group))?;
    }
    socket.listen(backlog(config.tcp_backlog))?;
    Ok(socket.into())
}

/// The number of a group, from the system's list of groups; none for an empty name.
fn group_id(name: &str) -> io::Result<Option<u32>> {
    if name.is_empty() {
        return Ok(None);
    }
    let groups = std::fs::read_to_string("/etc/group")?;
    let fields = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found =
        fields.filter(|fields| fields.first() == Some(&name)).find_map(|fields| fields.get(2)?.parse().ok());
    found.map(Some).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no group '{name}' (unixsocketgroup)"))
    })
}

fn address(bind: &Bind, port: u16) -> io::Result<SocketAddr> {
    let host = match bind.address.as_str() {
        "*" => "0.0.0.0",
        "::*" => "::",
        host => host,
    };
    (host, port).to_socket_addrs()?.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

fn tcp_socket(address: SocketAddr, queue: u32) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // So that a server can start right after another one stopped, whose connections linger.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog(queue))?;
    Ok(socket.into())
}

fn backlog(queue: u32) -> i32 {
    i32::try_from(queue).unwrap_or(i32::MAX)
}

/// The machine has no such address, or does not speak its protocol.
fn is_not_here(error: &io::Error) -> bool {
    let unsupported = [libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT, libc::ENOPROTOOPT, libc::ESOCKTNOSUPPORT];
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        || error.raw_os_error().is_some_and(|code| unsupported.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Arguments, load};

    fn config(words: &[&str]) -> Config {
        let arguments = Arguments::parse(words.iter().map(std::ffi::OsString::from));
        load(&arguments, &mut io::empty()).unwrap().config
    }

    /// A port that was free a moment ago.
    fn free_port() -> u16 {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn optional_addresses_may_be_missing_but_not_taken() {
        let port = free_port().to_string();
        // 192.0.2.1 is reserved for documentation: no machine has it.
        let sockets =
            tcp(&config(&["--port", &port, "--bind", "127.0.0.1", "-192.0.2.1"]).listen_settings()).unwrap();
        assert_eq!(sockets.len(), 1);
        let taken = tcp(&config(&["--port", &port, "--bind", "-127.0.0.1"]).listen_settings()).unwrap_err();
        assert_eq!(
            taken.to_string(),
            format!("Could not listen on 127.0.0.1:{port}: Address already in use")
        );
        let missing = tcp(&config(&["--port", &port, "--bind", "192.0.2.1"]).listen_settings()).unwrap_err();
        assert_eq!(
            missing.to_string(),
            format!("Could not listen on 192.0.2.1:{port}: Cannot assign requested address")
        );
        drop(sockets);
        assert_eq!(
            tcp(&config(&["--port", &port, "--bind", "127.0.0.1"]).listen_settings()).unwrap().len(),
            1,
            "free again"
        );
        assert!(tcp(&config(&["--port", "0"]).listen_settings()).unwrap().is_empty());
    }

    #[test]
    fn a_unix_socket_replaces_a_dead_one_only() {
        let path = std::env::temp_dir().join(format!("darter-listen-{}.sock", std::process::id()));
        let text = path.to_str().unwrap();
        let config = config(&["--unixsocket", text, "--unixsocketperm", "700"]);
        let socket = unix(&config).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(unix(&config).unwrap_err().source.kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        assert!(unix(&config).unwrap().is_some());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert_eq!(unix(&config).unwrap_err().source.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn groups_are_found_by_name() {
        assert_eq!(group_id("").unwrap(), None);
        assert_eq!(group_id("root").unwrap(), Some(0));
        assert!(group_id("no such group").is_err());
    }
}
