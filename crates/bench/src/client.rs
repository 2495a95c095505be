//! A plain connection that asks one thing at a time and waits for the answer: for logging in, INFO, CLUSTER SLOTS and what a test needs
//! before it runs. TCP, Unix sockets, TLS. Not for the load itself, which takes over the socket with [`Client::into_parts`].

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::fault::{Fault, Result};

/// Where a server is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// How to become a client of a server.
#[derive(Clone, Debug)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<String>,
    /// 3 sends HELLO; 2 does not, so that old servers serve.
    pub resp3: bool,
    pub db: u32,
    /// CLIENT TRACKING ON.
    pub tracking: bool,
    pub tls: Option<Tls>,
    /// How long connecting and each answer may take.
    pub timeout: Duration,
}

/// What TLS needs.
#[derive(Clone, Debug)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    /// The name that the server must have; nothing for the host's.
    pub server_name: Option<String>,
}

/// A reply as a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Nil,
    Text(Vec<u8>),
    Number(i64),
    Error(String),
    List(Vec<Value>),
}

impl Value {
    /// Text, if it is any.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        if let Value::Text(bytes) = self { Some(String::from_utf8_lossy(bytes).into_owned()) } else { None }
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_read_timeout(timeout).and(socket.set_write_timeout(timeout)),
            Socket::Unix(socket) => socket.set_read_timeout(timeout).and(socket.set_write_timeout(timeout)),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that is logged in.
pub struct Client {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    address: Address,
    timeout: Duration,
    input: Vec<u8>,
}

/// Nested replies deeper than this are no answer to what is asked here.
const DEPTH_MAX: u32 = 16;

impl Client {
    /// Connects, and logs in as asked.
    pub fn open(address: &Address, login: &Login) -> Result<Client> {
        let fault = |error: io::Error| {
            Fault::new(format!(
                "cannot connect to {address}: {}: is the server running there?",
                plain(&error)
            ))
        };
        let socket = match address {
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path).map_err(fault)?),
            Address::Tcp { host, port } => Socket::Tcp(connect(host, *port, login.timeout).map_err(fault)?),
        };
        socket.set_timeout(Some(login.timeout)).map_err(fault)?;
        let tls = login.tls.as_ref().map(|tls| start_tls(address, tls)).transpose()?;
        let (address, timeout) = (address.clone(), login.timeout);
        let mut client = Client { socket, tls, address, timeout, input: Vec::new() };
        client.log_in(login)?;
        Ok(client)
    }

    fn log_in(&mut self, login: &Login) -> Result<()> {
        let user = login.user.as_deref();
        let mut first: Vec<&str> = Vec::new();
        if login.resp3 {
            first.extend(["HELLO", "3"]);
            if let Some(password) = &login.password {
                first.extend(["AUTH", user.unwrap_or("default"), password]);
            }
        } else if let Some(password) = &login.password {
            first.push("AUTH");
            first.extend(user);
            first.push(password);
        }
        if !first.is_empty() {
            self.must(&first)?;
        }
        if login.db > 0 {
            self.must(&["SELECT", &login.db.to_string()])?;
        }
        if login.tracking {
            self.must(&["CLIENT", "TRACKING", "ON"])?;
        }
        Ok(())
    }

    /// Sends a command whose failure makes a run pointless.
    pub fn must(&mut self, words: &[&str]) -> Result<Value> {
        match self.call(words)? {
            Value::Error(text) => Err(refused(&self.address, words[0], &text)),
            value => Ok(value),
        }
    }

    /// Sends a command and waits for its reply.
    pub fn call(&mut self, words: &[&str]) -> Result<Value> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.call_bytes(&words)
    }

    /// As [`Client::call`], for any bytes.
    pub fn call_bytes(&mut self, words: &[&[u8]]) -> Result<Value> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.send(&request).map_err(|error| self.broken(&error))?;
        loop {
            let value = self.value(0)?;
            // What is not asked for is a push of the server's.
            if let Some(value) = value {
                return Ok(value);
            }
        }
    }

    /// The socket, ready for a reactor, and the state of TLS.
    pub fn into_parts(self) -> Result<(OwnedFd, Option<Box<ClientConnection>>)> {
        self.socket.set_timeout(None).map_err(|error| self.broken(&error))?;
        let socket = match self.socket {
            Socket::Tcp(socket) => OwnedFd::from(socket),
            Socket::Unix(socket) => OwnedFd::from(socket),
        };
        Ok((socket, self.tls))
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(tls) => {
                let mut stream = rustls::Stream::new(tls.as_mut(), &mut self.socket);
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    fn broken(&self, error: &io::Error) -> Fault {
        let address = &self.address;
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Fault::new(format!(
                "{address} does not answer within {} s: is it a RESP server? if it is only slow, raise --timeout",
                self.timeout.as_secs_f64()
            )),
            io::ErrorKind::InvalidData if self.tls.is_some() => Fault::new(format!(
                "TLS with {address} fails: {error}: see --cacert, --sni, --cert and --insecure"
            )),
            _ => Fault::new(format!(
                "{address} has broken the connection: {}: see its log, and whether it wants TLS",
                plain(error)
            )),
        }
    }

    /// At least one more byte of input.
    fn fill(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        let result = match &mut self.tls {
            None => self.socket.read(&mut buffer),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut self.socket).read(&mut buffer),
        };
        match result {
            Ok(0) => Err(Fault::new(format!(
                "{} has closed the connection: is it a RESP server that takes more clients, and does it want TLS?",
                self.address
            ))),
            Ok(count) => {
                self.input.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.input.drain(..=end).collect();
                line.truncate(line.len() - 1);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            self.fill()?;
        }
    }

    /// The next reply; nothing for one that nobody asked for.
    fn value(&mut self, depth: u32) -> Result<Option<Value>> {
        let line = self.line()?;
        let (kind, rest) = line.split_first().map_or((0, &[][..]), |(kind, rest)| (*kind, rest));
        let text = String::from_utf8_lossy(rest).into_owned();
        let count = text.parse::<i64>();
        let alien = || {
            Fault::new(format!(
                "{} does not speak RESP: is the port right, or does it want TLS?",
                self.address
            ))
        };
        Ok(Some(match (kind, count) {
            (b'+' | b',' | b'#' | b'(', _) => Value::Text(rest.to_vec()),
            (b'-', _) => Value::Error(text),
            (b':', Ok(number)) => Value::Number(number),
            (b'_', _) | (b'$' | b'*', Ok(-1)) => Value::Nil,
            (b'$' | b'=' | b'!', Ok(length @ 0..=0x2000_0000)) => {
                let length = length as usize;
                while self.input.len() < length + 2 {
                    self.fill()?;
                }
                let bytes: Vec<u8> = self.input.drain(..length + 2).take(length).collect();
                if kind == b'!' {
                    Value::Error(String::from_utf8_lossy(&bytes).into_owned())
                } else {
                    Value::Text(bytes)
                }
            }
            (b'*' | b'~' | b'%' | b'>' | b'|', Ok(count @ 0..=0xff_ffff)) if depth < DEPTH_MAX => {
                let count = if matches!(kind, b'%' | b'|') { count * 2 } else { count };
                let mut list = Vec::new();
                for _ in 0..count {
                    list.extend(self.value(depth + 1)?);
                }
                if matches!(kind, b'>' | b'|') {
                    return Ok(None);
                }
                Value::List(list)
            }
            _ => return Err(alien()),
        }))
    }
}

/// What a server's refusal means and what to do about it. `MOVED` and the like may come from any command.
#[must_use]
pub fn refused(address: &Address, command: &str, text: &str) -> Fault {
    let advice = match text.split(' ').next().unwrap_or_default() {
        "NOAUTH" => "give a password with -a, and --user if it is not the default user's",
        "WRONGPASS" => "the user or the password is wrong: see -a and --user",
        "NOPERM" => "this user may not do that: give another with --user and -a",
        "LOADING" => "the server is still loading its data: wait until it is through",
        "MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT" => "the server is part of a cluster: add --cluster",
        "NOPROTO" => "the server does not speak RESP3: leave out -3",
        _ => "the server refuses it",
    };
    Fault::new(format!("{address} answers {command} with \"{}\": {advice}", text.trim_end()))
}

/// An error without its number.
#[must_use]
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn start_tls(address: &Address, tls: &Tls) -> Result<Box<ClientConnection>> {
    let host = match (&tls.server_name, address) {
        (Some(name), _) => name.clone(),
        (None, Address::Tcp { host, .. }) => host.clone(),
        (None, Address::Unix(_)) => "localhost".to_string(),
    };
    let name = ServerName::try_from(host.clone()).map_err(|_| {
        Fault::new(format!("{host} is no name that a certificate can have: give one with --sni"))
    })?;
    let connection = ClientConnection::new(Arc::clone(&tls.config), name);
    let mut connection = connection.map_err(|error| Fault::new(format!("TLS cannot begin: {error}")))?;
    // A pipeline of requests is handed over as a whole.
    connection.set_buffer_limit(None);
    Ok(Box::new(connection))
}
