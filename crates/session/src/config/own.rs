//! Settings whose values follow rules of their own. Each function takes the words of a value and gives the text of CONFIG GET.

use std::net::{Ipv4Addr, Ipv6Addr};

use shard::notify::Class;

use super::setting::{Parsed, Reason, bytes, int, one_of};

/// Valkey refuses more addresses than this.
pub const BIND_ADDRESSES_MAX: usize = 16;
/// More shards would not be entered faster, and their empty heaps would cost memory.
pub const SHARDS_MAX: i64 = 4096;
const HZ_MIN: i64 = 1;
const HZ_MAX: i64 = 500;
/// Valkey allocates its backlog in blocks of this size.
const BACKLOG_BYTES_MIN: u64 = 16 * 1024;

// Which values promise nothing: see `Stance::Promise`.

pub(super) fn is_no(value: &[u8]) -> bool {
    value == b"no"
}

pub(super) fn is_off(value: &[u8]) -> bool {
    value == b"off"
}

pub(super) fn is_zero(value: &[u8]) -> bool {
    value == b"0"
}

pub(super) fn is_empty(value: &[u8]) -> bool {
    value.is_empty()
}

pub(super) fn is_plain_locale(value: &[u8]) -> bool {
    matches!(value, b"" | b"C" | b"POSIX")
}

pub(super) fn saves_nothing(value: &[u8]) -> bool {
    !value.split(|&byte| byte == b' ').any(|flag| matches!(flag, b"save" | b"failover"))
}

// Settings of one word.

/// The frequency of Valkey's timer, pulled into its bounds.
pub(super) fn hz(word: &[u8]) -> Parsed {
    Ok(int(word, 0, i64::from(i32::MAX))?.clamp(HZ_MIN, HZ_MAX).to_string().into_bytes())
}

/// 0, or a power of two.
pub(super) fn shards(word: &[u8]) -> Parsed {
    let count = int(word, 0, SHARDS_MAX)?;
    if count & (count - 1) != 0 && count != 0 {
        return Err("argument must be a power of two, or 0 to choose by the number of threads".into());
    }
    Ok(count.to_string().into_bytes())
}

pub(super) fn backlog_size(word: &[u8]) -> Parsed {
    match bytes(word) {
        None => Err("argument must be a memory value".into()),
        Some(size) if size == 0 || i64::try_from(size).is_err() => {
            Err(format!("argument must be between 1 and {} inclusive", i64::MAX).into())
        }
        Some(size) => Ok(size.max(BACKLOG_BYTES_MIN).to_string().into_bytes()),
    }
}

/// A number of bytes, or a share of `maxmemory` such as `5%`.
pub(super) fn bytes_or_percent(word: &[u8]) -> Parsed {
    let wrong = || Reason::Borrowed("argument must be a memory or percent value");
    if let Some(number) = word.strip_suffix(b"%") {
        return match stdx::num::parse_i64(number) {
            Some(percent) if percent > 100 => Err("percentage argument must be less or equal to 100".into()),
            Some(percent) if percent >= 0 => Ok(format!("{percent}%").into_bytes()),
            _ => Err(wrong()),
        };
    }
    Ok(bytes(word).ok_or_else(wrong)?.to_string().into_bytes())
}

/// A number of bytes, or -1 for no limit.
pub(super) fn bytes_or_none(word: &[u8]) -> Parsed {
    if word == b"-1" {
        return Ok(word.to_vec());
    }
    match bytes(word) {
        Some(size) if i64::try_from(size).is_ok() => Ok(size.to_string().into_bytes()),
        Some(_) => Err(format!("argument must be between -1 and {} inclusive", i64::MAX).into()),
        None => Err("argument must be a memory value".into()),
    }
}

/// Permission bits in octal; empty is 0, the bits that the process would give.
pub(super) fn octal_mode(word: &[u8]) -> Parsed {
    let wrong = || Reason::Borrowed("argument couldn't be parsed as an octal number");
    if word.is_empty() {
        return Ok(b"0".to_vec());
    }
    let text = std::str::from_utf8(word).map_err(|_| wrong())?;
    if text.starts_with('+') {
        return Err(wrong());
    }
    let mode = u32::from_str_radix(text, 8).map_err(|_| wrong())?;
    if mode > 0o777 {
        return Err("argument must be between 0 and 777 inclusive".into());
    }
    Ok(format!("{mode:o}").into_bytes())
}

pub(super) fn snapshot_name(word: &[u8]) -> Parsed {
    file_name(word, "dbfilename", "filename")
}

pub(super) fn journal_name(word: &[u8]) -> Parsed {
    file_name(word, "appendfilename", "filename")
}

pub(super) fn journal_dir(word: &[u8]) -> Parsed {
    file_name(word, "appenddirname", "dirname")
}

fn file_name(word: &[u8], setting: &str, what: &str) -> Parsed {
    if word.is_empty() {
        return Err(format!("{setting} can't be empty").into());
    }
    if word.contains(&b'/') {
        return Err(format!("{setting} can't be a path, just a {what}").into());
    }
    Ok(word.to_vec())
}

/// A directory that exists; shown as an absolute path.
pub(super) fn directory(word: &[u8]) -> Parsed {
    let path = std::path::Path::new(super::os_str(word));
    let refused = |error: std::io::Error| Reason::Owned(os_text(&error));
    let absolute = path.canonicalize().map_err(refused)?;
    if !absolute.is_dir() {
        return Err("Not a directory".into());
    }
    Ok(super::os_bytes(absolute.as_os_str()).to_vec())
}

/// An operating system error without the `(os error 2)` that Rust appends.
pub fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

pub(super) fn ipv4(word: &[u8]) -> Parsed {
    match std::str::from_utf8(word).map(str::parse::<Ipv4Addr>) {
        Ok(Ok(_)) => Ok(word.to_vec()),
        _ if word.is_empty() => Ok(Vec::new()),
        _ => Err("Invalid IPv4 address".into()),
    }
}

pub(super) fn ipv6(word: &[u8]) -> Parsed {
    match std::str::from_utf8(word).map(str::parse::<Ipv6Addr>) {
        Ok(Ok(_)) => Ok(word.to_vec()),
        _ if word.is_empty() => Ok(Vec::new()),
        _ => Err("Invalid IPv6 address".into()),
    }
}

pub(super) fn hostname(word: &[u8]) -> Parsed {
    if word.len() >= 256 {
        return Err("Hostnames must be less than 256 characters".into());
    }
    if !word.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots".into());
    }
    Ok(word.to_vec())
}

/// What may stand in the file of cluster nodes without quotes.
fn is_plain_name(word: &[u8]) -> bool {
    word.iter().all(|byte| byte.is_ascii_graphic() && !b"!#$%&()*+,;<=>?@[]^{|}~".contains(byte))
}

pub(super) fn node_name(word: &[u8]) -> Parsed {
    if !is_plain_name(word) {
        return Err("Announced human node name contained invalid character".into());
    }
    Ok(word.to_vec())
}

pub(super) fn announced_ip(word: &[u8]) -> Parsed {
    if !is_plain_name(word) {
        return Err("cluster-announce-ip contains invalid character".into());
    }
    Ok(word.to_vec())
}

pub(super) fn no_rdma(word: &[u8]) -> Parsed {
    if word.is_empty() { Ok(Vec::new()) } else { Err("No RDMA building support.".into()) }
}

pub(super) fn oom_score_adj(word: &[u8]) -> Parsed {
    match one_of(word, &["no", "yes", "relative", "absolute"])? {
        "relative" => Ok(b"yes".to_vec()),
        other => Ok(other.as_bytes().to_vec()),
    }
}

/// Classes of keyspace events, in the order in which Valkey prints them. It forgets `n` behind `A`; here it is shown.
pub(super) fn keyspace_events(word: &[u8]) -> Parsed {
    let wanted = Class::parse(word).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
    let (common, others) = Class::LETTERS.split_at(10);
    let all = common.iter().all(|(_, class)| wanted.any(*class));
    let common = if all { &[(b'A', Class::NONE)][..] } else { common };
    let shown = common.iter().filter(|(_, class)| all || wanted.any(*class));
    let others = others.iter().filter(|(_, class)| wanted.any(*class));
    Ok(shown.chain(others).map(|(letter, _)| *letter).collect())
}

// Settings of several words.

pub(super) fn bind(words: &[&[u8]], _before: &[u8]) -> Parsed {
    if words.len() > BIND_ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".into());
    }
    Ok(words.join(&b' '))
}

/// Pairs of seconds and changes; each line of a file adds its pairs, an empty word removes all.
pub(super) fn save_points(words: &[&[u8]], before: &[u8]) -> Parsed {
    if words == [b"".as_slice()] {
        return Ok(Vec::new());
    }
    let wrong = || Reason::Borrowed("Invalid save parameters");
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let mut value = before.to_vec();
    for pair in words.chunks_exact(2) {
        let seconds = int(pair[0], 1, i64::MAX).map_err(|_| wrong())?;
        let changes = int(pair[1], 0, i64::from(i32::MAX)).map_err(|_| wrong())?;
        if !value.is_empty() {
            value.push(b' ');
        }
        value.extend_from_slice(format!("{seconds} {changes}").as_bytes());
    }
    Ok(value)
}

/// How much unsent output a class of clients may have, as `client-output-buffer-limit` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Above this many bytes the client is closed; 0 means no limit.
    pub hard: u64,
    /// Above this many bytes for longer than `soft_seconds` it is closed; 0 means no limit.
    pub soft: u64,
    pub soft_seconds: u64,
}

/// The classes in the order of the setting. CONFIG GET calls the second one `slave` as it always did.
pub const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

pub(super) fn output_limits(words: &[&[u8]], before: &[u8]) -> Parsed {
    let mut limits = read_output_limits(before);
    if words == [b"".as_slice()] {
        return Ok(before.to_vec());
    }
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    for four in words.chunks_exact(4) {
        let class = match four[0].to_ascii_lowercase().as_slice() {
            b"normal" => 0,
            b"slave" | b"replica" => 1,
            b"pubsub" => 2,
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        };
        let wrong = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        limits[class] = OutputLimit {
            hard: bytes(four[1]).ok_or(wrong)?,
            soft: bytes(four[2]).ok_or(wrong)?,
            soft_seconds: int(four[3], 0, i64::MAX).map_err(|_| wrong)?.unsigned_abs(),
        };
    }
    let texts: Vec<String> = OUTPUT_CLASSES
        .iter()
        .zip(limits)
        .map(|(class, limit)| format!("{class} {} {} {}", limit.hard, limit.soft, limit.soft_seconds))
        .collect();
    Ok(texts.join(" ").into_bytes())
}

/// Reads what [`output_limits`] wrote.
pub(super) fn read_output_limits(value: &[u8]) -> [OutputLimit; 3] {
    let numbers: Vec<u64> = value.split(|&byte| byte == b' ').filter_map(bytes_of_digits).collect();
    let mut limits = [OutputLimit::default(); 3];
    for (limit, three) in limits.iter_mut().zip(numbers.chunks_exact(3)) {
        *limit = OutputLimit { hard: three[0], soft: three[1], soft_seconds: three[2] };
    }
    limits
}

fn bytes_of_digits(word: &[u8]) -> Option<u64> {
    if word.first()?.is_ascii_digit() { bytes(word) } else { None }
}

pub(super) fn oom_score_values(words: &[&[u8]], _before: &[u8]) -> Parsed {
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    let wrong = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
    for word in words {
        int(word, -2000, 2000).map_err(|_| wrong)?;
    }
    Ok(words.join(&b' '))
}

pub(super) fn percentiles(words: &[&[u8]], _before: &[u8]) -> Parsed {
    if words == [b"".as_slice()] {
        return Ok(Vec::new());
    }
    let mut texts = Vec::new();
    for word in words {
        let value =
            stdx::num::parse_f64(word).ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&value) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        texts.push(value.to_string());
    }
    Ok(texts.join(" ").into_bytes())
}

pub(super) fn shutdown_flags(words: &[&[u8]], _before: &[u8]) -> Parsed {
    const FLAGS: [&str; 7] = ["default", "save", "nosave", "now", "force", "safe", "failover"];
    let mut set = [false; FLAGS.len()];
    for word in words {
        let flag = one_of(word, &FLAGS)?;
        set[FLAGS.iter().position(|known| *known == flag).expect("one of these was found")] = true;
    }
    if set[1] && set[2] {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    let shown: Vec<&str> =
        FLAGS.iter().zip(set).skip(1).filter(|(_, set)| *set).map(|(flag, _)| *flag).collect();
    Ok(if shown.is_empty() { b"default".to_vec() } else { shown.join(" ").into_bytes() })
}

/// `no one`, or the host and port of a primary.
pub(super) fn primary(words: &[&[u8]], _before: &[u8]) -> Parsed {
    if words == [b"".as_slice()] {
        return Ok(Vec::new());
    }
    let [host, port] = words else { return Err("wrong number of arguments".into()) };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(Vec::new());
    }
    int(port, 0, 65535).map_err(|_| "Invalid primary port")?;
    Ok(words.join(&b' '))
}
