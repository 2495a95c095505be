//! Words that mean something to the commands of one type, so that most of them meet a value of their own type and elements that are there.

/// The words of one group of commands.
pub struct Vocabulary {
    group: &'static str,
    /// Keys that hold values of the type.
    pub keys: &'static [&'static [u8]],
    /// Names of arguments that are ids which mostly grow.
    pub ids: &'static [&'static str],
    /// Names of arguments with the words to draw for them.
    pub words: &'static [(&'static [&'static str], &'static [&'static [u8]])],
}

/// Elements of collections: a few, so that they meet again; integers of every width; long ones.
const ELEMENTS: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"f",
    b"m1",
    b"m2",
    b"m3",
    b"m4",
    b"m5",
    b"m6",
    b"m7",
    b"1",
    b"2",
    b"3",
    b"10",
    b"100",
    b"-5",
    b"70000",
    b"5000000000",
    b"1.5",
    b"",
    b"\x00\xff",
    b"an element that is longer than sixteen bytes",
    b"an element that is longer than the sixty-four bytes of a listpack's default",
];
const SCORES: &[&[u8]] = &[
    b"0",
    b"1",
    b"2",
    b"3",
    b"-1",
    b"1.5",
    b"-0.25",
    b"1e10",
    b"inf",
    b"-inf",
    b"3.0",
    b"1e-5",
    b"nan",
    b"x",
    b"123456789012",
    b"0.1",
    b"-0",
];
const BOUNDS: &[&[u8]] = &[
    b"-inf", b"+inf", b"(1", b"1", b"2", b"(-1", b"0", b"(a", b"[a", b"[m5", b"-", b"+", b"5", b"-1", b"x",
    b"[", b"3", b"-3",
];
const FIELDS: &[&str] = &["element", "member", "field", "value", "pivot", "member1", "member2"];

const VOCABULARIES: &[Vocabulary] = &[
    Vocabulary { group: "list", keys: &[b"l1", b"l2", b"{t}l"], ids: &[], words: &[(FIELDS, ELEMENTS)] },
    Vocabulary { group: "set", keys: &[b"s1", b"s2", b"{t}s"], ids: &[], words: &[(FIELDS, ELEMENTS)] },
    Vocabulary {
        group: "sorted-set",
        keys: &[b"z1", b"z2", b"{t}z"],
        ids: &[],
        words: &[(FIELDS, ELEMENTS), (&["score", "increment", "weight"], SCORES), (&["min", "max"], BOUNDS)],
    },
    Vocabulary { group: "hash", keys: &[b"h1", b"h2", b"{t}h"], ids: &[], words: &[(FIELDS, ELEMENTS)] },
    Vocabulary {
        group: "stream",
        keys: &[b"x1", b"x2", b"{t}x"],
        ids: &["id", "last-id"],
        words: &[
            (FIELDS, ELEMENTS),
            (&["group"], &[b"g1", b"g2", b"g"]),
            (&["consumer"], &[b"c1", b"c2"]),
            (
                &["start", "end", "lastid", "threshold"],
                &[b"-", b"+", b"1", b"2-1", b"(3", b"5", b"(1-1", b"0", b"4"],
            ),
            (
                &["id", "last-id"],
                &[b"0", b"$", b">", b"1-1", b"2", b"3-1", b"0-0", b"5-*", b"18446744073709551615-5"],
            ),
        ],
    },
    Vocabulary {
        group: "geo",
        keys: &[b"z1", b"{t}z", b"geo"],
        ids: &[],
        words: &[
            (&["member", "member1", "member2"], ELEMENTS),
            (
                &["longitude"],
                &[b"13.361389", b"15.087269", b"-122.4", b"180", b"-180", b"0", b"181", b"12.5"],
            ),
            (&["latitude"], &[b"38.115556", b"37.502669", b"85.05112878", b"0", b"-85.1", b"86", b"40"]),
            (&["radius", "width", "height"], &[b"100", b"200", b"1000", b"0", b"-1", b"0.5", b"30000"]),
        ],
    },
    Vocabulary {
        group: "bitmap",
        keys: &[b"a", b"b", b"bits", b"{t}1"],
        ids: &[],
        words: &[
            (&["encoding"], &[b"u8", b"i8", b"u16", b"i64", b"u63", b"i5", b"u1", b"u64", b"i65", b"x"]),
            (&["offset"], &[b"0", b"1", b"7", b"8", b"100", b"#0", b"#3", b"-1", b"4294967296", b"1000"]),
            (&["value", "bit"], &[b"0", b"1", b"2", b"-1", b"255", b"-128", b"100"]),
        ],
    },
    Vocabulary {
        group: "hyperloglog",
        keys: &[b"p1", b"p2", b"{t}p"],
        ids: &[],
        words: &[
            (FIELDS, ELEMENTS),
            // PFDEBUG's others change a key without telling who watches it (docs/differences.md).
            (&["subcommand"], &[b"encoding", b"DECODE", b"nosuch"]),
        ],
    },
];

/// The words of a group that has some of its own.
pub fn of(group: &str) -> Option<&'static Vocabulary> {
    VOCABULARIES.iter().find(|vocabulary| vocabulary.group == group)
}

/// The keys of every group, beside the common ones.
pub fn key_lists(common: &'static [&'static [u8]]) -> Vec<&'static [&'static [u8]]> {
    std::iter::once(common).chain(VOCABULARIES.iter().map(|vocabulary| vocabulary.keys)).collect()
}
