//! What looks inside a sketch, and the test of all of them.

use command::{CommandError, Effect};
use resp::{Args, Reply};
use shard::exec::Exec;
use shard::keyspace::IntText;
use types::hyperloglog::{self, Encoding, Merged};

use super::commands::store;
use super::{corrupt, sketch};
use crate::text::quoted;

const NO_KEY: CommandError = CommandError::fixed("ERR The specified key does not exist");
const NOT_SPARSE: CommandError = CommandError::fixed("ERR HLL encoding is not sparse");
const ON_OR_OFF: CommandError = CommandError::fixed("ERR Argument must be ON or OFF");

/// `PFDEBUG GETREG | DECODE | ENCODING | TODENSE key`, `PFDEBUG SIMD ON | OFF`
pub(super) fn pfdebug(cx: &mut Exec<'_>, args: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    let is = |name: &[u8]| args[1].eq_ignore_ascii_case(name);
    if is(b"SIMD") {
        // There is no such switch: it is only said, so that scripts for the peers go on.
        reply.simple(match () {
            () if args[2].eq_ignore_ascii_case(b"ON") => "enabled",
            () if args[2].eq_ignore_ascii_case(b"OFF") => "disabled",
            () => return Err(ON_OR_OFF),
        });
        return Ok(Effect::None);
    }
    let key = cx.key(args, 2);
    let mut text = IntText::default();
    let bytes = sketch(cx.find(key).ok_or(NO_KEY)?, &mut text)?;
    let sparse = hyperloglog::encoding(bytes) == Some(Encoding::Sparse);
    match () {
        () if is(b"GETREG") => {
            let mut merged = Merged::default();
            merged.take(bytes).map_err(corrupt)?;
            reply.array(hyperloglog::REGISTERS);
            merged.registers().for_each(|value| reply.int(i64::from(value)));
        }
        () if is(b"DECODE") => {
            if !sparse {
                return Err(NOT_SPARSE);
            }
            reply.bulk(hyperloglog::decode(bytes).as_bytes());
            return Ok(Effect::None);
        }
        () if is(b"ENCODING") => {
            reply.simple(if sparse { "sparse" } else { "dense" });
            return Ok(Effect::None);
        }
        () if is(b"TODENSE") => reply.int(i64::from(sparse)),
        () => {
            return Err(CommandError::new(format!("ERR Unknown PFDEBUG subcommand '{}'", quoted(&args[1]))));
        }
    }
    if !sparse {
        return Ok(Effect::None);
    }
    // GETREG makes a sketch dense, too, as the peers do.
    let mut new = bytes.to_vec();
    hyperloglog::make_dense(&mut new).map_err(corrupt)?;
    store(cx, key, &new);
    Ok(Effect::AsIs)
}

/// `PFSELFTEST`
pub(super) fn pfselftest(_: &mut Exec<'_>, _: Args<'_>, reply: &mut Reply) -> Result<Effect, CommandError> {
    hyperloglog::self_test().map_err(CommandError::new)?;
    reply.ok();
    Ok(Effect::None)
}

#[cfg(test)]
mod tests {
    use crate::harness::World;

    /// Too long for a golden file. The register of "a" is the reference's: `PFDEBUG DECODE` gives `Z:12711 v:2,1 Z:3672`.
    #[test]
    fn all_registers() {
        let mut world = World::new(1);
        world.text("PFADD h a");
        let reply = world.text("PFDEBUG GETREG h");
        let values: Vec<&str> = reply.split("\r\n").collect();
        assert_eq!((values[0], values[1 + 12_711], values.len()), ("*16384", ":2", 1 + 16_384 + 1));
        assert_eq!(values.iter().filter(|value| **value == ":0").count(), 16_383);
        assert_eq!(world.text("PFDEBUG ENCODING h"), "+dense\r\n");
        assert_eq!(world.text("PFCOUNT h"), ":1\r\n");
    }
}
