//! The connections of one reactor: a slab of small slots, addressed by index and generation, so that a completion or a caller that
//! arrives late never reaches the slot's next tenant. An idle connection owns nothing but its slot (and its descriptor).
//!
//! ```text
//! ConnId  63..60   59..32       31..0
//!         zero     generation   slot index        (the engines put the kind of operation into the top four bits)
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::output::Outbox;

/// Names one connection of one reactor for as long as the process runs (a slot would have to be reused 2^28 times while an old id is
/// still held to be mistaken).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(u64);

/// Generations are 28 bits wide and skip zero, so that no id is all zero.
const GENERATION_MAX: u32 = (1 << 28) - 1;

impl ConnId {
    fn new(index: u32, generation: u32) -> ConnId {
        ConnId(u64::from(generation) << 32 | u64::from(index))
    }

    /// The dense index of the slot: at most as large as the number of connections that were ever open at once. For tables beside the
    /// reactor; the slot's next tenant has the same index, with another generation.
    #[must_use]
    pub fn index(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    /// The id as a number below 2^60, never zero.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The reverse of [`ConnId::to_bits`]. A number that came from elsewhere names no connection and is ignored by every call.
    #[must_use]
    pub fn from_bits(bits: u64) -> ConnId {
        ConnId(bits & ((1 << 60) - 1))
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & GENERATION_MAX
    }
}

/// Where a slot is in its life.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nobody's.
    Free,
    /// The caller knows it.
    Open,
    /// The caller has let go of it; unsent output is still on its way.
    Flushing,
    /// Closed for everybody but the kernel, which still holds its receive (ring engine only).
    Dying,
}

/// How the ring engine's receive of a connection stands.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Receive {
    /// Nothing is out.
    Idle,
    /// A receive is out.
    Armed,
    /// A receive is out, and so is its cancellation.
    Cancelling,
    /// The end has been seen; there is nothing left to receive.
    Finished,
}

impl Receive {
    /// Whether the kernel holds the operation.
    pub fn is_out(self) -> bool {
        matches!(self, Receive::Armed | Receive::Cancelling)
    }
}

/// One connection.
pub(crate) struct Conn {
    pub fd: Option<OwnedFd>,
    generation: u32,
    pub phase: Phase,
    /// The caller wants data.
    pub reading: bool,
    /// The peer's end, or an error, has been handed to the caller (or nobody is left to be told).
    pub ended: bool,
    /// Sending has failed; all further output is discarded.
    pub broken: bool,
    /// Has output that no engine has looked at; is on the list of such connections.
    pub dirty: bool,
    /// The socket refused bytes; waits until it takes them again.
    pub blocked: bool,
    /// Is on the list of connections whose held data is to be handed out.
    pub resumed: bool,
    /// The interest registered with an epoll set.
    pub interest: u32,
    pub receive: Receive,
    /// Ring engine: is on the list of those to be looked at (see `uring::doubts`).
    pub doubted: bool,
    /// Ring engine: bytes of this turn's send.
    pub sending: usize,
    /// Why sending failed, as an errno; told with `Closed`.
    pub errno: i32,
    pub out: Outbox,
    /// What arrived while reading was paused; rare, hence boxed.
    pub held: Option<Box<Held>>,
}

/// What arrived while reading was paused.
#[derive(Default)]
pub(crate) struct Held {
    pub bytes: Vec<u8>,
    /// The end arrived, too: zero, or an errno.
    pub end: Option<i32>,
}

impl Conn {
    fn empty() -> Conn {
        Conn {
            fd: None,
            generation: 1,
            phase: Phase::Free,
            reading: false,
            ended: false,
            broken: false,
            dirty: false,
            blocked: false,
            resumed: false,
            interest: 0,
            receive: Receive::Idle,
            doubted: false,
            sending: 0,
            errno: 0,
            out: Outbox::default(),
            held: None,
        }
    }

    /// The socket of a slot that is in use.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("a slot in use has its descriptor").as_fd()
    }
}

/// The slab.
#[derive(Default)]
pub(crate) struct Conns {
    slots: Vec<Conn>,
    free: Vec<u32>,
}

impl Conns {
    /// Takes a slot for `fd`.
    pub fn insert(&mut self, fd: OwnedFd) -> ConnId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Conn::empty());
            u32::try_from(self.slots.len() - 1).expect("descriptors are 31-bit numbers")
        });
        let conn = &mut self.slots[index as usize];
        assert!(conn.phase == Phase::Free, "a slot on the free list is free");
        conn.fd = Some(fd);
        conn.phase = Phase::Open;
        conn.reading = true;
        ConnId::new(index, conn.generation)
    }

    /// The slot of `id`, in whatever phase, unless it has been given up since.
    pub fn get(&self, id: ConnId) -> Option<&Conn> {
        self.slots
            .get(id.index())
            .filter(|conn| conn.generation == id.generation() && conn.phase != Phase::Free)
    }

    /// As [`Conns::get`], to change it.
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.slots
            .get_mut(id.index())
            .filter(|conn| conn.generation == id.generation() && conn.phase != Phase::Free)
    }

    /// The slot of `id` if the caller still owns the connection.
    pub fn open_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.get_mut(id).filter(|conn| conn.phase == Phase::Open)
    }

    /// Gives the slot up; the descriptor is closed here.
    pub fn remove(&mut self, id: ConnId) {
        if self.get(id).is_none() {
            return;
        }
        let conn = &mut self.slots[id.index()];
        assert!(!conn.receive.is_out(), "the kernel must be done with a slot that is given up");
        let generation = if conn.generation == GENERATION_MAX { 1 } else { conn.generation + 1 };
        *conn = Conn { generation, ..Conn::empty() };
        self.free.push(u32::try_from(id.index()).expect("it came from the slab"));
    }

    /// The ids of all slots in use.
    pub fn ids(&self) -> Vec<ConnId> {
        let used = self.slots.iter().enumerate().filter(|(_, conn)| conn.phase != Phase::Free);
        used.map(|(index, conn)| {
            ConnId::new(u32::try_from(index).expect("the slab is indexed by 32 bits"), conn.generation)
        })
        .collect()
    }

    /// Number of slots in use.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Conn>() <= 256, "{}", size_of::<Conn>());
    }

    #[test]
    fn ids_are_not_reused() {
        let mut conns = Conns::default();
        let fd = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let (first, second) = (conns.insert(fd()), conns.insert(fd()));
        assert_eq!((first.index(), second.index(), conns.len()), (0, 1, 2));
        conns.remove(first);
        assert!(conns.get(first).is_none() && conns.get(second).is_some());
        let third = conns.insert(fd());
        assert_eq!(third.index(), first.index());
        assert_ne!(third, first);
        assert!(conns.get(first).is_none() && conns.open_mut(third).is_some());
        assert_eq!(ConnId::from_bits(third.to_bits()), third);
        conns.remove(first);
        assert_eq!(conns.len(), 2, "a dead id removes nothing");
        assert!(conns.get(ConnId::from_bits(u64::MAX)).is_none());
    }

    #[test]
    fn generations_wrap_past_zero() {
        let mut conns = Conns::default();
        let fd = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let id = conns.insert(fd());
        conns.slots[0].generation = GENERATION_MAX;
        let last = ConnId::new(0, GENERATION_MAX);
        conns.remove(last);
        assert_eq!(conns.insert(fd()), id, "after 2^28 tenants");
    }
}
