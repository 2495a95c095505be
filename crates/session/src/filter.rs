//! Which clients CLIENT LIST and CLIENT KILL mean.

use command::CommandError;
use resp::Args;
use stdx::num::parse_i64;

use crate::client::Client;

/// One condition, and whether it must not hold (`NOT-...`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    negated: bool,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Ids(Vec<u64>),
    Type(ClientType),
    User(Box<[u8]>),
    Address(Box<[u8]>),
    LocalAddress(Box<[u8]>),
    Ip(Box<[u8]>),
    Name(Box<[u8]>),
    LibName(Box<[u8]>),
    LibVer(Box<[u8]>),
    Flags(Box<[u8]>),
    Capa(Box<[u8]>),
    Db(u16),
    /// Age in seconds, at least.
    MaxAge(u64),
    /// Seconds without a command, at least.
    Idle(u64),
}

/// The kinds of clients; Darter has no primary and no replicas yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    Primary,
    Replica,
    PubSub,
}

/// Which clients are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    conditions: Vec<Condition>,
    /// SKIPME, if it was given.
    pub skip_me: Option<bool>,
}

/// Letters that CLIENT LIST may show as flags.
const FLAG_LETTERS: &[u8] = b"AbBcdeiMNOPrRSTtUuxIEy";

impl Filter {
    /// The clients made from `address` (the old form of CLIENT KILL).
    pub fn address(address: &[u8]) -> Self {
        let condition = Condition { negated: false, test: Test::Address(address.into()) };
        Self { conditions: vec![condition], skip_me: None }
    }

    /// Reads `[NOT-]OPTION value ...` from word `from` on.
    /// `knows_user` says whether there is a user with a name.
    pub fn parse(
        args: Args<'_>,
        from: usize,
        databases: u16,
        knows_user: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Self, CommandError> {
        let mut filter = Self::default();
        let mut at = from;
        while let Some(option) = args.get(at) {
            let value = args.get(at + 1).ok_or(CommandError::SYNTAX)?;
            at += 2;
            let option = option.to_ascii_uppercase();
            if option == b"SKIPME" {
                filter.skip_me = Some(yes_or_no(value)?);
                continue;
            }
            let (negated, name) = match option.strip_prefix(b"NOT-") {
                Some(rest) => (true, rest),
                None => (false, option.as_slice()),
            };
            let test = if name == b"ID" {
                let mut ids = vec![id(value)?];
                while let Some(more) = args.get(at).and_then(parse_i64) {
                    ids.push(positive("client-id", Some(more))?);
                    at += 1;
                }
                Test::Ids(ids)
            } else {
                Self::test(name, value, negated, databases, knows_user)?
            };
            filter.conditions.push(Condition { negated, test });
        }
        Ok(filter)
    }

    fn test(
        name: &[u8],
        value: &[u8],
        negated: bool,
        databases: u16,
        knows_user: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Test, CommandError> {
        let text = || value.into();
        Ok(match name {
            b"TYPE" => Test::Type(client_type(value)?),
            b"USER" => {
                if !knows_user(value) {
                    let user = String::from_utf8_lossy(value);
                    return Err(CommandError::new(format!("ERR No such user '{user}'")));
                }
                Test::User(text())
            }
            b"ADDR" => Test::Address(text()),
            b"LADDR" => Test::LocalAddress(text()),
            b"IP" => Test::Ip(text()),
            b"NAME" => Test::Name(text()),
            b"LIB-NAME" => Test::LibName(text()),
            b"LIB-VER" => Test::LibVer(text()),
            b"FLAGS" => known_letters("flags", FLAG_LETTERS, value).map(|()| Test::Flags(text()))?,
            b"CAPA" => known_letters("capa", b"r", value).map(|()| Test::Capa(text()))?,
            b"DB" => Test::Db(database(value, databases)?),
            b"MAXAGE" if !negated => Test::MaxAge(positive("maxage", parse_i64(value))?),
            b"IDLE" if !negated => Test::Idle(positive("idle", parse_i64(value))?),
            _ => return Err(CommandError::SYNTAX),
        })
    }

    /// Whether this client is meant.
    pub fn meets(&self, client: &Client, now_ms: u64) -> bool {
        self.conditions.iter().all(|condition| condition.test.holds(client, now_ms) != condition.negated)
    }
}

impl Test {
    fn holds(&self, client: &Client, now_ms: u64) -> bool {
        let peer = client.addresses.peer.as_bytes();
        match self {
            Self::Ids(ids) => ids.contains(&client.id),
            Self::Type(kind) => {
                let of_client =
                    if client.subscriptions.is_some() { ClientType::PubSub } else { ClientType::Normal };
                *kind == of_client
            }
            Self::User(user) => **user == *client.user.name,
            Self::Address(address) => **address == *peer,
            Self::LocalAddress(address) => **address == *client.addresses.local.as_bytes(),
            Self::Ip(ip) => peer.rsplitn(2, |byte| *byte == b':').nth(1).is_some_and(|host| host == &**ip),
            // What was never set equals nothing, not even the empty text.
            Self::Name(name) => !client.name.is_empty() && *name == client.name,
            Self::LibName(name) => !client.lib_name.is_empty() && *name == client.lib_name,
            Self::LibVer(version) => !client.lib_ver.is_empty() && *version == client.lib_ver,
            Self::Flags(letters) => {
                let flags = client.flags();
                letters.iter().all(|letter| flags.as_bytes().contains(letter))
            }
            Self::Capa(letters) => letters.is_empty() || client.capa_redirect,
            Self::Db(db) => *db == client.db,
            Self::MaxAge(seconds) => now_ms.saturating_sub(client.created_ms) / 1000 >= *seconds,
            Self::Idle(seconds) => now_ms.saturating_sub(client.active_ms) / 1000 >= *seconds,
        }
    }
}

fn yes_or_no(value: &[u8]) -> Result<bool, CommandError> {
    if value.eq_ignore_ascii_case(b"yes") {
        Ok(true)
    } else if value.eq_ignore_ascii_case(b"no") {
        Ok(false)
    } else {
        Err(CommandError::SYNTAX)
    }
}

fn id(value: &[u8]) -> Result<u64, CommandError> {
    let id = parse_i64(value).ok_or(CommandError::SYNTAX)?;
    positive("client-id", Some(id))
}

fn positive(what: &str, value: Option<i64>) -> Result<u64, CommandError> {
    let value =
        value.ok_or_else(|| CommandError::new(format!("ERR {what} is not an integer or out of range")))?;
    match u64::try_from(value) {
        Ok(value) if value > 0 => Ok(value),
        _ => Err(CommandError::new(format!("ERR {what} should be greater than 0"))),
    }
}

fn database(value: &[u8], databases: u16) -> Result<u16, CommandError> {
    let db = parse_i64(value).ok_or(CommandError::fixed("ERR DB is not an integer or out of range"))?;
    u16::try_from(db)
        .ok()
        .filter(|db| *db < databases)
        .ok_or_else(|| CommandError::new(format!("ERR DB number should be between 0 and {}", databases - 1)))
}

fn known_letters(what: &str, known: &[u8], value: &[u8]) -> Result<(), CommandError> {
    if value.iter().all(|letter| known.contains(letter)) {
        return Ok(());
    }
    let value = String::from_utf8_lossy(value);
    Err(CommandError::new(format!("ERR Unknown {what} found in the provided filter: {value}")))
}

fn client_type(value: &[u8]) -> Result<ClientType, CommandError> {
    match value.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(ClientType::Normal),
        b"master" | b"primary" => Ok(ClientType::Primary),
        b"slave" | b"replica" => Ok(ClientType::Replica),
        b"pubsub" => Ok(ClientType::PubSub),
        _ => {
            let value = String::from_utf8_lossy(value);
            Err(CommandError::new(format!("ERR Unknown client type '{value}'")))
        }
    }
}
