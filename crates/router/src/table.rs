//! From a command's name to its row: all rows of all families in one table, looked up without allocation.
//!
//! HOT: one lookup per command.

use command::{Command, CommandError, Flags, Group, Spec};
use resp::Args;
use shard::plan::Plan;

/// How a command of the table is run: by the shards, or by the connection's own thread (`S` is session's function).
#[derive(Clone, Copy)]
pub enum Run<S> {
    Data(Plan),
    Session(S),
}

/// One command as the router knows it.
pub struct Entry<S: 'static> {
    pub spec: &'static Spec,
    pub run: Run<S>,
    /// `get`, `client|kill`: the name of statistics and errors.
    pub full_name: String,
    /// Number of this entry, for per-command statistics; dense from 0.
    pub number: usize,
    pub subcommands: Vec<Entry<S>>,
    /// Word of the only key, when the command always has exactly one; 0 otherwise.
    pub only_key: usize,
    /// Word of the first key that a script declares, if it declares any; 0 for what is no script.
    pub script_key: usize,
    /// What [`fold`] makes of the name.
    folded: u64,
}

/// Every command of the server.
pub struct Table<S: 'static> {
    entries: Vec<Entry<S>>,
    /// Open addressing over the lower-case names: index into `entries` + 1, 0 is empty.
    slots: Vec<u16>,
    count: usize,
}

/// Longest name of a command; a longer word is no command.
const NAME_LEN_MAX: usize = 32;

impl<S: Copy> Table<S> {
    /// Builds the table from the data rows and the session rows. Two rows of one name are our own bug, unless both are containers: then
    /// some subcommands look at keys and others do not (MEMORY), and the container has them all, in the order of their names.
    pub fn new(data: &[&'static [Command<Plan>]], session: &[&'static [Command<S>]]) -> Self {
        let mut table = Self { entries: Vec::new(), slots: vec![0; 1024], count: 0 };
        for row in data.iter().flat_map(|family| family.iter()) {
            let entry = table.entry(row, None, |plan| Run::Data(*plan));
            table.add(entry);
        }
        for row in session.iter().flat_map(|family| family.iter()) {
            let mut entry = table.entry(row, None, |run| Run::Session(*run));
            match table.entries.iter_mut().find(|known| known.spec.name == entry.spec.name) {
                Some(known) if !known.subcommands.is_empty() && !entry.subcommands.is_empty() => {
                    known.subcommands.append(&mut entry.subcommands);
                    known.subcommands.sort_by_key(|sub| sub.spec.name);
                    known.run = entry.run;
                }
                _ => table.add(entry),
            }
        }
        assert!(table.entries.len() * 2 <= table.slots.len(), "the command table needs more slots");
        table
    }

    fn entry<R>(
        &mut self,
        row: &'static Command<R>,
        parent: Option<&str>,
        run: fn(&R) -> Run<S>,
    ) -> Entry<S> {
        let name = row.spec.name.to_ascii_lowercase();
        let full_name = parent.map_or_else(|| name.clone(), |parent| format!("{parent}|{name}"));
        let number = self.count;
        self.count += 1;
        let subcommands = row.subcommands.iter().map(|sub| self.entry(sub, Some(&full_name), run)).collect();
        let only_key = only_key(&row.spec);
        let script_key = if row.spec.group == Group::Scripting && !row.spec.keys.is_empty() { 3 } else { 0 };
        Entry {
            spec: &row.spec,
            run: run(&row.run),
            full_name,
            number,
            subcommands,
            only_key,
            script_key,
            folded: fold(row.spec.name.as_bytes()),
        }
    }

    fn add(&mut self, entry: Entry<S>) {
        let name = entry.spec.name.to_ascii_lowercase();
        assert!(self.find(name.as_bytes()).is_none(), "two rows are named {name}");
        let mut at = hash(name.as_bytes()) & (self.slots.len() - 1);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.entries.push(entry);
        self.slots[at] = u16::try_from(self.entries.len()).expect("there are fewer than 65,535 commands");
    }

    /// The command with this name, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Entry<S>> {
        if name.len() > NAME_LEN_MAX {
            return None;
        }
        let folded = fold(name);
        let mut at = hash(name) & (self.slots.len() - 1);
        while self.slots[at] != 0 {
            let entry = &self.entries[usize::from(self.slots[at]) - 1];
            let known = entry.spec.name.as_bytes();
            // Nearly always one comparison of words decides; the letters are compared only to be sure.
            if folded == entry.folded && known.eq_ignore_ascii_case(name) {
                return Some(entry);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// The command that `args` call, the subcommand of a container included, with its number of words checked.
    #[inline]
    pub fn resolve(&self, args: Args<'_>) -> Result<&Entry<S>, CommandError> {
        Self::resolve_found(self.find(&args[0]), args)
    }

    /// As [`Self::resolve`], when the name has been looked up already.
    #[inline]
    pub fn resolve_found<'t>(
        found: Option<&'t Entry<S>>,
        args: Args<'_>,
    ) -> Result<&'t Entry<S>, CommandError> {
        let entry = found.ok_or_else(|| unknown_command(args))?;
        let entry = match args.get(1) {
            Some(word) if !entry.subcommands.is_empty() => subcommand(entry, &args[0], word)?,
            _ => entry,
        };
        if entry.spec.accepts(args.len()) { Ok(entry) } else { Err(CommandError::arity(&entry.full_name)) }
    }

    /// Every command, containers and subcommands apart, in the order of the families.
    pub fn entries(&self) -> &[Entry<S>] {
        &self.entries
    }

    /// The full name of the command or subcommand with this number.
    pub fn name_of(&self, number: usize) -> Option<&str> {
        self.all().find(|entry| entry.number == number).map(|entry| entry.full_name.as_str())
    }

    /// Every command and subcommand.
    pub fn all(&self) -> impl Iterator<Item = &Entry<S>> {
        self.entries.iter().flat_map(|entry| std::iter::once(entry).chain(&entry.subcommands))
    }

    /// Number of commands and subcommands: `Entry::number` is below it.
    pub fn count(&self) -> usize {
        self.count
    }
}

/// The word of the only key of a command that always has exactly one; 0 for any other.
fn only_key(spec: &Spec) -> usize {
    use command::{Begin, Find};
    match spec.keys {
        [key] if !spec.flags.has(Flags::MOVABLEKEYS) => match (key.begin, key.find) {
            (Begin::Index(at), Find::Range { last: 0, .. })
                if spec.accepts(usize::from(at) + 1) || spec.arity < 0 || spec.arity > 1 =>
            {
                usize::from(at)
            }
            _ => 0,
        },
        _ => 0,
    }
}

/// Up to eight bytes of a name without their case: upper and lower case of a letter differ in bit 5 only, which is set in every byte.
/// Shorter names are read as two overlapping halves, which spares a copy of unknown length.
#[inline]
fn fold(name: &[u8]) -> u64 {
    let word = match (name.first_chunk::<8>(), name.first_chunk::<4>(), name.first_chunk::<2>()) {
        (Some(head), _, _) => u64::from_le_bytes(*head),
        (None, Some(head), _) => {
            let tail = name.last_chunk::<4>().unwrap_or(head);
            u64::from(u32::from_le_bytes(*head)) | u64::from(u32::from_le_bytes(*tail)) << 32
        }
        (None, None, Some(head)) => {
            let tail = name.last_chunk::<2>().unwrap_or(head);
            u64::from(u16::from_le_bytes(*head)) | u64::from(u16::from_le_bytes(*tail)) << 16
        }
        _ => name.first().copied().unwrap_or(0).into(),
    };
    word | 0x2020_2020_2020_2020
}

/// Case-insensitive.
#[inline]
fn hash(name: &[u8]) -> usize {
    let tail = name.last().copied().unwrap_or(0);
    let mixed = (fold(name) ^ (u64::from(tail | 0x20) << 7) ^ ((name.len() as u64) << 56))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as usize
}

fn subcommand<'t, S>(
    entry: &'t Entry<S>,
    container: &[u8],
    word: &[u8],
) -> Result<&'t Entry<S>, CommandError> {
    entry.subcommands.iter().find(|sub| sub.spec.name.as_bytes().eq_ignore_ascii_case(word)).ok_or_else(
        || {
            CommandError::new(format!(
                "ERR unknown subcommand '{}'. Try {} HELP.",
                clipped(word),
                String::from_utf8_lossy(container).to_ascii_uppercase()
            ))
        },
    )
}

/// The text of a word in an error, at most 128 bytes of it.
fn clipped(word: &[u8]) -> String {
    String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned()
}

fn unknown_command(args: Args<'_>) -> CommandError {
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", clipped(&args[0]));
    let mut room = 128usize;
    for word in args.iter().skip(1) {
        if room == 0 {
            break;
        }
        let shown = String::from_utf8_lossy(&word[..word.len().min(room)]).into_owned();
        room = room.saturating_sub(shown.len() + 3);
        text.push_str(&format!("'{shown}' "));
    }
    CommandError::new(text)
}
