//! From options to a plan: what is given, what the dialect says, what makes no sense.

use std::io::Read;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use reactor::{EngineKind, affinity};

use super::{DataKind, Dialect, Engine, FromReplicas, KeyDist, Options};
use crate::client::{Address, Login, Tls};
use crate::data::{Data, Kind, Sizes};
use crate::fault::{Fault, Result};
use crate::keys::{Distribution, Sampler};
use crate::pace::{self, Pace};
use crate::plan::{Plan, Replicas};
use crate::record::Setup;
use crate::template::Context;
use crate::tls;
use crate::workload::{self, Command, Test};

impl Options {
    /// From words without the program's name, for those that have no options of their own to parse.
    pub fn parse(words: Vec<String>) -> Result<Options> {
        #[derive(Parser)]
        #[command(name = "darter-bench", disable_help_flag = true, no_binary_name = true)]
        struct Alone {
            #[command(flatten)]
            options: Options,
        }
        let matches = Alone::command()
            .try_get_matches_from(super::dialect::spell(words))
            .map_err(|error| one_line(&error))?;
        let mut options = Alone::from_arg_matches(&matches).map_err(|error| one_line(&error))?.options;
        options.weigh(&matches)?;
        Ok(options)
    }

    /// Gives each `--command` the `--command-ratio` that follows it. To be called with what the options were parsed from.
    pub fn weigh(&mut self, matches: &ArgMatches) -> Result<()> {
        let places = |name: &str| -> Vec<usize> {
            let given = matches.value_source(name) == Some(ValueSource::CommandLine);
            matches.indices_of(name).filter(|_| given).map(Iterator::collect).unwrap_or_default()
        };
        let commands = places("command");
        self.weights = vec![1; self.command.len()];
        for (ratio, place) in self.command_ratio.iter().zip(places("command_ratio")) {
            let before = commands.iter().rposition(|command| *command < place);
            let before = before.ok_or_else(|| {
                Fault::new("--command-ratio stands behind the --command that it belongs to")
            })?;
            self.weights[before] = *ratio;
        }
        Ok(())
    }

    /// The plan. `command_line` is what records show, without secrets.
    pub fn plan(&self, command_line: &str) -> Result<Plan> {
        let defaults = self.dialect.defaults();
        let threads = self.thread_count()?;
        let connections = self.clients.unwrap_or(defaults.connections);
        if connections == 0 || threads == 0 {
            return Err(Fault::new("nothing sends with -c 0 or no threads: give at least one"));
        }
        let connections = if self.dialect.counts_apart() { connections * threads } else { connections };
        let threads = threads.min(connections);
        let pipeline = self.pipeline()?;
        let (address, login) = self.server()?;
        let context = self.context()?;
        let tests = self.all_tests(&context)?;
        let populate = self.populate.as_deref().map(|text| populate(text, &context)).transpose()?;
        let pace = self.pace(connections)?;
        let duration = self.duration(pace)?;
        let requests = self.request_count(connections, duration.is_some())?;
        let warmup = time("--warmup", &self.warmup)?;
        let seed =
            self.seed.unwrap_or_else(|| reactor::clock::unix_us() ^ u64::from(std::process::id()) << 40);
        let p99_max = self.max_p99.as_deref().map(|text| time("--max-p99", text)).transpose()?;
        let setup = Setup {
            command_line: command_line.to_string(),
            workload: self.workload(&tests),
            threads,
            connections,
            pipeline,
            data_size: self.sizes()?.to_string(),
            keys: if tests.iter().any(Test::draws) { context.keys.count() } else { 0 },
            key_distribution: self.distribution()?.name(),
            seed,
            rate: pace.rate(),
            cluster: self.cluster,
            warmup,
            requests,
            duration,
        };
        Ok(Plan {
            name: None,
            address,
            login,
            threads,
            connections,
            pipeline,
            requests,
            duration,
            warmup,
            pace,
            p99_max,
            seed,
            seeded: self.seed.is_some(),
            keep_alive: self.keep_alive == 1,
            engine: match self.io_engine {
                Engine::Auto => EngineKind::Auto,
                Engine::Uring => EngineKind::Uring,
                Engine::Epoll => EngineKind::Epoll,
            },
            cluster: self.cluster,
            replicas: self.replicas(),
            context,
            tests,
            populate,
            quiet_server: self.no_info,
            setup,
        })
    }

    fn replicas(&self) -> Replicas {
        match self.read_from_replicas {
            FromReplicas::No => Replicas::No,
            FromReplicas::Yes => Replicas::Yes,
            FromReplicas::IfAny => Replicas::IfAny,
            FromReplicas::All => Replicas::All,
        }
    }

    fn thread_count(&self) -> Result<usize> {
        let short = match (self.dialect, &self.tests_or_threads) {
            (Dialect::Memtier, Some(text)) => Some(text.parse().map_err(|_| {
                Fault::new(format!("-t is a number of threads in this dialect, and not {text}"))
            })?),
            _ => None,
        };
        let given = self.threads.or(short).filter(|threads| *threads > 0 || self.dialect != Dialect::Dfly);
        let default = self.dialect.defaults().threads;
        Ok(given.or(default).unwrap_or_else(|| affinity::cores().usable()))
    }

    fn pipeline(&self) -> Result<usize> {
        let short = match (self.dialect, &self.pipeline_or_protocol) {
            (Dialect::Valkey, Some(text)) => Some(text.parse().map_err(|_| {
                Fault::new(format!(
                    "-P is a number of requests in this dialect, and not {text}: see --dialect"
                ))
            })?),
            (_, Some(text)) => {
                if !["", "redis", "resp", "resp2", "resp3"].contains(&text.as_str()) {
                    return Err(Fault::new(format!("-P {text}: only RESP is spoken here: resp2 or resp3")));
                }
                None
            }
            _ => None,
        };
        let pipeline = self.pipeline.or(short).unwrap_or(1);
        if pipeline == 0 || pipeline > 1 << 20 {
            return Err(Fault::new(format!(
                "a pipeline of {pipeline} requests cannot be: give 1 to 1048576"
            )));
        }
        Ok(pipeline)
    }

    fn request_count(&self, connections: usize, timed: bool) -> Result<Option<u64>> {
        let each = if self.dialect.counts_apart() { connections as u64 } else { 1 };
        match self.requests.as_deref() {
            None if timed => Ok(None),
            None => Ok(Some(self.dialect.defaults().requests * each)),
            Some("allkeys") => Ok(Some(self.sampler()?.count())),
            Some(text) => {
                let requests = pace::rate(text).map(|number| number as u64).filter(|number| *number > 0);
                let requests = requests.ok_or_else(|| {
                    Fault::new(format!("-n is a number of requests above 0, and not {text}"))
                })?;
                Ok(Some(requests.saturating_mul(each)))
            }
        }
    }

    fn duration(&self, pace: Pace) -> Result<Option<Duration>> {
        let given = self.test_time.as_deref().map(|text| time("--test-time", text)).transpose()?;
        if given.is_some_and(|time| time.is_zero()) {
            return Err(Fault::new("--test-time 0 measures nothing: give a time such as 10s"));
        }
        Ok(match pace {
            Pace::Ramp(ramp) => Some(given.map_or(ramp.over, |given| given.min(ramp.over))),
            _ => given,
        })
    }

    fn pace(&self, connections: usize) -> Result<Pace> {
        if let Some(ramp) = &self.ramp {
            return Ok(Pace::Ramp(ramp.parse()?));
        }
        let qps = match &self.qps {
            None => self.dialect.defaults().qps,
            // A negative rate insists on the rate even if the server is slower: there is no other way here.
            Some(text) => pace::rate(text.trim_start_matches('-'))
                .ok_or_else(|| Fault::new(format!("--qps is a rate such as 1000 or 10k, and not {text}")))?,
        };
        let qps = if self.dialect.counts_apart() { qps * connections as f64 } else { qps };
        if qps > 0.0 && qps < 1e-3 {
            return Err(Fault::new("--qps is too small to see anything: give a rate above 0.001"));
        }
        Ok(if qps == 0.0 { Pace::Closed } else { Pace::Constant(qps) })
    }

    /// Where the server is and how to log in.
    fn server(&self) -> Result<(Address, Login)> {
        let mut host = self.host.clone();
        let mut port = self.port;
        let mut socket = self.unix_socket.clone();
        match (self.dialect, &self.socket_or_server) {
            (Dialect::Memtier, Some(server)) => host = Some(server.clone()),
            (_, Some(path)) => socket = Some(path.into()),
            (_, None) => {}
        }
        let (mut user, mut password, mut db, mut use_tls) =
            (self.user.clone(), self.password.clone(), self.dbnum, self.tls);
        if let Some(uri) = &self.uri {
            let uri = Uri::parse(uri)?;
            (host, port) = (Some(uri.host), uri.port);
            user = uri.user.or(user);
            password = uri.password.or(password);
            db = uri.db.unwrap_or(db);
            use_tls |= uri.tls;
        }
        if self.dialect == Dialect::Memtier
            && user.is_none()
            && let Some((name, secret)) = password.as_deref().and_then(|both| both.split_once(':'))
        {
            (user, password) = (Some(name.to_string()), Some(secret.to_string()));
        }
        if user.is_some() && password.is_none() {
            return Err(Fault::new("--user needs a password: give it with -a"));
        }
        let address = match socket {
            Some(path) => Address::Unix(path),
            None => Address::Tcp { host: host.unwrap_or_else(|| "127.0.0.1".to_string()), port },
        };
        let files = tls::Files {
            cacert: self.cacert.clone(),
            cacertdir: self.cacertdir.clone(),
            insecure: self.insecure,
            cert: self.cert.clone(),
            key: self.key.clone(),
        };
        let tls = if use_tls {
            Some(Tls { config: tls::config(&files)?, server_name: self.sni.clone() })
        } else {
            None
        };
        let resp3 = self.resp3
            || self.dialect != Dialect::Valkey && self.pipeline_or_protocol.as_deref() == Some("resp3");
        let timeout = time("--timeout", &self.timeout)?;
        if timeout.is_zero() {
            return Err(Fault::new("--timeout 0 leaves no time for a reply: give a time such as 5s"));
        }
        Ok((address, Login { user, password, resp3, db, tracking: self.enable_tracking, tls, timeout }))
    }

    fn sizes(&self) -> Result<Sizes> {
        self.data_size.as_deref().unwrap_or(self.dialect.defaults().data_size).parse()
    }

    fn distribution(&self) -> Result<Distribution> {
        let pattern = self.key_pattern.as_deref().map(|text| self.pattern(text)).transpose()?;
        let dist = self.key_dist.or(pattern).unwrap_or(KeyDist::Uniform);
        Ok(match dist {
            _ if self.sequential => Distribution::Sequential,
            KeyDist::Uniform => Distribution::Uniform,
            KeyDist::Sequential => Distribution::Sequential,
            KeyDist::Zipfian => Distribution::Zipfian { alpha: self.zipf_alpha },
            KeyDist::Normal => Distribution::Normal { stddev: self.key_stddev.unwrap_or(0.0) },
        })
    }

    /// `R:R` as memtier has it. One distribution serves both sides, unless one of them has no requests.
    fn pattern(&self, text: &str) -> Result<KeyDist> {
        let letter = |letter: &str| match letter {
            "R" => Ok(KeyDist::Uniform),
            "G" => Ok(KeyDist::Normal),
            "Z" => Ok(KeyDist::Zipfian),
            "S" | "P" => Ok(KeyDist::Sequential),
            _ => Err(Fault::new(format!(
                "--key-pattern is R, G, Z, S or P for SET and for GET, as in R:R, and not {text}"
            ))),
        };
        let (set, get) = text.split_once(':').unwrap_or((text, text));
        let (set, get) = (letter(set)?, letter(get)?);
        match self.ratio.as_deref().and_then(|ratio| ratio.split_once(':')) {
            Some(("0", _)) => Ok(get),
            Some((_, "0")) => Ok(set),
            _ if set == get => Ok(set),
            _ => Err(Fault::new(format!(
                "--key-pattern {text}: SET and GET draw keys alike here; run them apart with --ratio 1:0 and 0:1"
            ))),
        }
    }

    fn sampler(&self) -> Result<Sampler> {
        let minimum = self.key_minimum.unwrap_or(0);
        let ranged = match self.range {
            Some(0) => return Err(Fault::new("-r 0 leaves no key: give the number of different keys")),
            Some(range) => Some(range - 1),
            None => None,
        };
        let maximum = self.key_maximum.or(ranged).unwrap_or(self.dialect.defaults().key_maximum);
        Sampler::new(self.distribution()?, minimum, maximum)
    }

    fn context(&self) -> Result<Context> {
        let expiry = self.expiry_range.as_deref().map(expiry).transpose()?;
        let default = match self.dialect {
            Dialect::Memtier if !self.random_data => DataKind::Constant,
            _ => DataKind::Random,
        };
        let kind = match self.data.unwrap_or(default) {
            DataKind::Random => Kind::Random,
            DataKind::Compressible => Kind::Compressible,
            DataKind::Constant => Kind::Constant,
        };
        Ok(Context {
            keys: self.sampler()?,
            key_prefix: self
                .key_prefix
                .as_deref()
                .unwrap_or(self.dialect.defaults().key_prefix)
                .as_bytes()
                .to_vec(),
            ints: self.range.is_some() || self.key_maximum.is_some() || self.sequential,
            tags: self.cluster,
            data: Data::new(self.sizes()?, kind, self.seed.unwrap_or(0)),
            verify: self.verify,
            expiry,
        })
    }

    fn names(&self) -> Option<&str> {
        let short = self.tests_or_threads.as_deref().filter(|_| self.dialect != Dialect::Memtier);
        self.tests.as_deref().or(short)
    }

    fn all_tests(&self, context: &Context) -> Result<Vec<Test>> {
        if !self.words.is_empty() {
            return Ok(vec![self.sequence(context)?]);
        }
        if !self.command.is_empty() {
            let commands = self.command.iter().map(|line| Command::from_line(line, context));
            let commands = commands.collect::<Result<Vec<_>>>()?;
            let weights = self.weights.iter().copied().chain(std::iter::repeat(1));
            return Ok(vec![Test::weighted(
                &self.command.join("; "),
                commands.into_iter().zip(weights).collect(),
            )?]);
        }
        match (&self.ratio, self.names()) {
            (Some(ratio), None) => {
                let (set, get) = numbers(ratio, ':')
                    .ok_or_else(|| Fault::new(format!("--ratio is SET:GET as in 1:10, and not {ratio}")))?;
                Ok(vec![Test::ratio(set, get, context)?])
            }
            (Some(_), Some(_)) => Err(Fault::new("--ratio and -t exclude each other: choose one")),
            (None, Some(names)) => workload::by_name(&names.split(',').collect::<Vec<_>>(), context),
            (None, None) if self.dialect == Dialect::Valkey => {
                workload::by_name(&workload::default_names(), context)
            }
            (None, None) => Ok(vec![Test::ratio(1, 10, context)?]),
        }
    }

    /// The commands behind the options: `[N] WORDS ';' [N] WORDS`.
    fn sequence(&self, context: &Context) -> Result<Test> {
        let mut words = self.words.clone();
        if self.last_from_stdin {
            let mut last = Vec::new();
            std::io::stdin()
                .read_to_end(&mut last)
                .map_err(|error| Fault::new(format!("-x: standard input: {error}")))?;
            words.push(String::from_utf8_lossy(&last).into_owned());
        }
        let mut commands = Vec::new();
        for part in words.split(|word| word == ";").filter(|part| !part.is_empty()) {
            let times = part[0].parse::<u64>().ok().filter(|_| part.len() > 1);
            let part = if times.is_some() { &part[1..] } else { part };
            let bytes: Vec<Vec<u8>> = part.iter().map(|word| word.as_bytes().to_vec()).collect();
            commands.push((Command::new(&bytes, context)?, times.unwrap_or(1)));
        }
        Test::rounds(&self.words.join(" "), commands)
    }

    fn workload(&self, tests: &[Test]) -> String {
        match (self.names(), tests) {
            (Some(names), _) if self.words.is_empty() && self.command.is_empty() => names.to_string(),
            (_, [test]) => test.name.clone(),
            _ => "default tests".to_string(),
        }
    }
}

/// An error of the parser in one line.
#[must_use]
pub fn one_line(error: &clap::Error) -> Fault {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    Fault::new(format!("{}: see --help", first.trim_start_matches("error: ").trim_end_matches(':')))
}

fn time(option: &str, text: &str) -> Result<Duration> {
    pace::duration(text)
        .ok_or_else(|| Fault::new(format!("{option} is a time such as 10, 1.5s, 200ms, 5m, and not {text}")))
}

/// Two numbers with `separator` between them.
fn numbers(text: &str, separator: char) -> Option<(u64, u64)> {
    let (left, right) = text.split_once(separator)?;
    Some((left.parse().ok()?, right.parse().ok()?))
}

fn expiry(text: &str) -> Result<(u64, u64)> {
    let range = numbers(text, '-').or_else(|| text.parse().ok().map(|seconds| (seconds, seconds)));
    range.filter(|(low, high)| *low > 0 && low <= high && *high < 1 << 40).ok_or_else(|| {
        Fault::new(format!("--expiry-range is a range of seconds above 0 as in 10-100, and not {text}"))
    })
}

fn populate(text: &str, context: &Context) -> Result<u64> {
    if text == "all" {
        return Ok(context.keys.count());
    }
    let keys = pace::rate(text).map(|number| number as u64).filter(|number| *number > 0);
    keys.ok_or_else(|| Fault::new(format!("--populate takes a number of keys above 0, and not {text}")))
}

/// The parts of `valkey://user:password@host:port/db`.
struct Uri {
    tls: bool,
    user: Option<String>,
    password: Option<String>,
    host: String,
    port: u16,
    db: Option<u32>,
}

impl Uri {
    fn parse(text: &str) -> Result<Uri> {
        let bad = || Fault::new("-u is valkey://[user:password@]host[:port][/db], or valkeys:// for TLS");
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let tls = match scheme {
            "valkey" | "redis" => false,
            "valkeys" | "rediss" => true,
            _ => return Err(bad()),
        };
        let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (place, db) = rest.split_once('/').map_or((rest, None), |(place, db)| (place, Some(db)));
        let db = db.filter(|db| !db.is_empty()).map(|db| db.parse().map_err(|_| bad())).transpose()?;
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !place.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
            _ => (place, 6379),
        };
        let (user, password) = match login {
            None => (None, None),
            Some(login) => match login.split_once(':') {
                Some((user, password)) => (Some(user).filter(|user| !user.is_empty()), Some(password)),
                None => (None, Some(login)),
            },
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        if host.is_empty() {
            return Err(bad());
        }
        Ok(Uri { tls, user: user.map(unescape), password: password.map(unescape), host, port, db })
    }
}

/// Undoes `%40`.
fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let pair =
            (byte == b'%').then(|| behind.get(..2)).flatten().and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(code) => {
                out.push(code);
                rest = &behind[2..];
            }
            None => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
