//! The first byte of a collection: its type, and the encoding by which the peers would keep it. Not how it is kept here: the other half of
//! the byte belongs to the type's own module.
//!
//! ```text
//! bits 7-4  the type's own     bits 3-0  Form
//! ```

/// The type of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
}

impl Type {
    /// As TYPE and SCAN name it.
    pub const fn name(self) -> &'static str {
        match self {
            Type::List => "list",
            Type::Set => "set",
            Type::SortedSet => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
        }
    }
}

/// A type with the encoding that OBJECT ENCODING reports. The peers' encodings change at configured thresholds and (lists apart) never back;
/// whether a collection is packed here follows other bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Form {
    ListListpack = 0,
    ListQuicklist = 1,
    SetIntset = 2,
    SetListpack = 3,
    SetHashtable = 4,
    SortedSetListpack = 5,
    SortedSetSkiplist = 6,
    HashListpack = 7,
    HashHashtable = 8,
    Stream = 9,
}

impl Form {
    /// Bits of the first byte that are the form's.
    pub const MASK: u8 = 0x0F;

    const ALL: [Form; 10] = [
        Form::ListListpack,
        Form::ListQuicklist,
        Form::SetIntset,
        Form::SetListpack,
        Form::SetHashtable,
        Form::SortedSetListpack,
        Form::SortedSetSkiplist,
        Form::HashListpack,
        Form::HashHashtable,
        Form::Stream,
    ];

    /// The form in the first byte of a collection.
    #[inline]
    pub fn of(tag: u8) -> Form {
        Form::ALL[usize::from(tag & Form::MASK)]
    }

    /// The type.
    #[inline]
    pub const fn type_of(self) -> Type {
        match self {
            Form::ListListpack | Form::ListQuicklist => Type::List,
            Form::SetIntset | Form::SetListpack | Form::SetHashtable => Type::Set,
            Form::SortedSetListpack | Form::SortedSetSkiplist => Type::SortedSet,
            Form::HashListpack | Form::HashHashtable => Type::Hash,
            Form::Stream => Type::Stream,
        }
    }

    /// As OBJECT ENCODING names it.
    pub const fn encoding(self) -> &'static str {
        match self {
            Form::ListListpack | Form::SetListpack | Form::SortedSetListpack | Form::HashListpack => {
                "listpack"
            }
            Form::ListQuicklist => "quicklist",
            Form::SetIntset => "intset",
            Form::SetHashtable | Form::HashHashtable => "hashtable",
            Form::SortedSetSkiplist => "skiplist",
            Form::Stream => "stream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_found_again_whatever_the_other_bits_are() {
        for (number, form) in (0..).zip(Form::ALL) {
            assert_eq!(form as u8, number);
            assert_eq!(Form::of(form as u8 | 0xF0), form);
        }
    }
}
