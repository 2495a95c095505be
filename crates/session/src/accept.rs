//! A new connection: its limits, its socket options, the thread that will serve it.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use crate::client::Addresses;
use crate::shared::Message;
use crate::worker::Worker;

const PROTECTED: &[u8] = b"-DENIED Darter is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. To connect from other hosts, either set a password with 'requirepass', or, if the network is trusted, disable protected mode with 'CONFIG SET protected-mode no' from the loopback interface or 'protected-mode no' in the configuration file.\r\n";
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Takes a connection from a listener: refuses it with a reason or gives it to the thread with the fewest.
pub(crate) fn accepted(worker: &mut Worker, _listener: u32, socket: OwnedFd) {
    worker.stats().connections_received.add(1);
    let addresses = match addresses(&socket) {
        Ok(addresses) => addresses,
        // The peer is gone already.
        Err(_) => return,
    };
    if let Some(reason) = refusal(worker, &addresses) {
        worker.stats().connections_rejected.add(1);
        // Best effort: the socket is new, so that its buffer has room for one line.
        let _ = std::fs::File::from(socket).write_all(reason);
        return;
    }
    if !addresses.unix_socket {
        set_options(worker, &socket);
    }
    let shared = &worker.shared;
    let fewest =
        shared.peers.iter().enumerate().min_by_key(|(_, peer)| peer.connections.load(Ordering::Relaxed));
    let (thread, peer) = fewest.expect("there is at least one thread");
    peer.connections.fetch_add(1, Ordering::Relaxed);
    let thread = u16::try_from(thread).expect("threads have numbers below 65,536");
    if thread == worker.id() {
        worker.adopt(socket, addresses);
    } else {
        shared.send(thread, Message::Adopt(socket, addresses));
    }
}

fn refusal(worker: &Worker, addresses: &Addresses) -> Option<&'static [u8]> {
    let config = &worker.config;
    if config.protected_mode && worker.default_user.nopass && !addresses.loopback {
        return Some(PROTECTED);
    }
    (worker.shared.connected() >= config.maxclients).then_some(TOO_MANY)
}

/// TCP_NODELAY always, keep-alive probes as `tcp-keepalive` says. A socket that refuses an option works without it.
fn set_options(worker: &Worker, socket: &OwnedFd) {
    let socket = SockRef::from(socket);
    let _ = socket.set_tcp_nodelay(true);
    let idle_s = u64::from(worker.config.tcp_keepalive);
    if idle_s > 0 {
        let probe_s = (idle_s / 3).max(1);
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(idle_s))
            .with_interval(Duration::from_secs(probe_s))
            .with_retries(3);
        let _ = socket.set_tcp_keepalive(&keepalive);
    }
}

fn addresses(socket: &OwnedFd) -> std::io::Result<Addresses> {
    let socket = SockRef::from(socket);
    let local = socket.local_addr()?;
    if let Some(local) = local.as_socket() {
        let peer = socket.peer_addr()?.as_socket().ok_or(std::io::ErrorKind::NotConnected)?;
        return Ok(Addresses {
            peer: shown(peer).into(),
            local: shown(local).into(),
            unix_socket: false,
            loopback: is_loopback(peer.ip()),
        });
    }
    let path = local.as_pathname().map(|path| path.display().to_string()).unwrap_or_default();
    let shown: Box<str> = format!("{path}:0").into();
    Ok(Addresses { peer: shown.clone(), local: shown, unix_socket: true, loopback: true })
}

/// An IPv4 client of a dual-stack socket is shown by its IPv4 address.
fn shown(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
