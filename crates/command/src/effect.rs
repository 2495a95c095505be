//! What a write changed, as the journal must record it: the return value of every data command.

/// What running a command did to the data.
///
/// Replaying the effects of a history, in order, into an empty keyspace gives the same data. A command whose outcome depends
/// on the clock, on chance or on what was there is therefore rewritten: INCRBYFLOAT becomes SET, EXPIRE becomes PEXPIREAT.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing changed: a read, or a write that found nothing to do.
    None,
    /// The command as the client sent it gives the same change again.
    AsIs,
    /// These commands, in this order, give the same change. Only built while a journal listens (`Exec::rewritten`).
    Rewritten(Box<[Record]>),
}

/// One command of an effect: its words, name first.
pub type Record = Vec<Vec<u8>>;
