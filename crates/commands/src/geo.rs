//! The geo family: sorted sets whose scores are places on the globe. Cells, distances and shapes are in `types::geo`.

mod places;
mod query;
mod search;

use command::{Begin, Categories, Command, CommandError, Find, Flags, Group, KeyFlags, KeySpec, Spec};
use shard::plan::Plan;
use stdx::num::parse_f64;
use types::geo::Point;

use places::{geoadd, geodist, geohash, geopos};
use search::{
    georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore, stores_twice,
};

const UNIT: CommandError = CommandError::fixed("ERR unsupported unit provided. please use M, KM, FT, MI");

/// The place that two words name.
fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, CommandError> {
    let degrees = |word| parse_f64(word).ok_or(CommandError::NOT_A_FLOAT);
    let point = Point { longitude: degrees(longitude)?, latitude: degrees(latitude)? };
    if point.is_valid() {
        return Ok(point);
    }
    let Point { longitude, latitude } = point;
    Err(CommandError::new(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// Metres of a unit.
fn unit(word: &[u8]) -> Result<f64, CommandError> {
    match word.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(UNIT),
    }
}

/// A distance as replies carry it: four digits behind the point.
fn distance_text(distance: f64) -> String {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    format!("{}.{:04}", scaled / 10_000, scaled % 10_000)
}

/// Every command of the family.
pub const ROWS: &[Command<Plan>] = &[
    Command {
        spec: Spec {
            name: "GEOADD",
            summary: "Adds members with their places to a sorted set, or moves those that are there.",
            complexity: "O(log n) for each member",
            since: "3.2.0",
            group: Group::Geo,
            arity: -5,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::GEO,
            keys: &[KeySpec::first(KeyFlags::RW.with(KeyFlags::UPDATE))],
            tips: &[],
            syntax: "key:key#0 [condition(NX=nx!|XX=xx!)@6.2.0] [CH=change!@6.2.0] data{longitude:double latitude:double member:string}*",
        },
        run: Plan::Keys(geoadd),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEODIST",
            summary: "Gives the distance between two members.",
            complexity: "O(1)",
            since: "3.2.0",
            group: Group::Geo,
            arity: -4,
            flags: Flags::READONLY,
            explicit: Categories::GEO,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 member1:string member2:string [unit(M=m!|KM=km!|FT=ft!|MI=mi!)]",
        },
        run: Plan::Keys(geodist),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEOHASH",
            summary: "Gives the geohashes of members, by which places can be shown on maps.",
            complexity: "O(1) for each member",
            since: "3.2.0",
            group: Group::Geo,
            arity: -2,
            flags: Flags::READONLY,
            explicit: Categories::GEO,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 [member:string*]",
        },
        run: Plan::Keys(geohash),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEOPOS",
            summary: "Gives the places of members.",
            complexity: "O(1) for each member",
            since: "3.2.0",
            group: Group::Geo,
            arity: -2,
            flags: Flags::READONLY,
            explicit: Categories::GEO,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 [member:string*]",
        },
        run: Plan::Keys(geopos),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEORADIUS",
            summary: "Finds the members in a circle around a place, and gives or stores them.",
            complexity: "O(n + log m) for n members in the cells around the circle, of m in all",
            since: "3.2.0",
            group: Group::Geo,
            arity: -6,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
            explicit: Categories::GEO,
            keys: &[
                KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS)),
                KeySpec {
                    begin: Begin::Keyword { word: "STORE", start: 6 },
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::OW.with(KeyFlags::UPDATE).with(KeyFlags::VARIABLE_FLAGS),
                    notes: "",
                },
                KeySpec {
                    begin: Begin::Keyword { word: "STOREDIST", start: 6 },
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::OW.with(KeyFlags::UPDATE).with(KeyFlags::VARIABLE_FLAGS),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "key:key#0 longitude:double latitude:double radius:double unit(M=m!|KM=km!|FT=ft!|MI=mi!) [WITHCOORD=withcoord!] [WITHDIST=withdist!] [WITHHASH=withhash!] [count-block{COUNT=count:integer [ANY=any!@6.2.0]}] [order(ASC=asc!|DESC=desc!)] [store(STORE=storekey:key#1|STOREDIST=storedistkey:key#2)]",
        },
        run: Plan::KeysOrEvery { run: georadius, every: stores_twice },
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEORADIUS_RO",
            summary: "Finds the members in a circle around a place.",
            complexity: "O(n + log m) for n members in the cells around the circle, of m in all",
            since: "3.2.10",
            group: Group::Geo,
            arity: -6,
            flags: Flags::READONLY,
            explicit: Categories::GEO,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 longitude:double latitude:double radius:double unit(M=m!|KM=km!|FT=ft!|MI=mi!) [WITHCOORD=withcoord!] [WITHDIST=withdist!] [WITHHASH=withhash!] [count-block{COUNT=count:integer [ANY=any!@6.2.0]}] [order(ASC=asc!|DESC=desc!)]",
        },
        run: Plan::Keys(georadius_ro),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEORADIUSBYMEMBER",
            summary: "Finds the members in a circle around a member, and gives or stores them.",
            complexity: "O(n + log m) for n members in the cells around the circle, of m in all",
            since: "3.2.0",
            group: Group::Geo,
            arity: -5,
            flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLEKEYS),
            explicit: Categories::GEO,
            keys: &[
                KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS)),
                KeySpec {
                    begin: Begin::Keyword { word: "STORE", start: 5 },
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::OW.with(KeyFlags::UPDATE).with(KeyFlags::VARIABLE_FLAGS),
                    notes: "",
                },
                KeySpec {
                    begin: Begin::Keyword { word: "STOREDIST", start: 5 },
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::OW.with(KeyFlags::UPDATE).with(KeyFlags::VARIABLE_FLAGS),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "key:key#0 member:string radius:double unit(M=m!|KM=km!|FT=ft!|MI=mi!) [WITHCOORD=withcoord!] [WITHDIST=withdist!] [WITHHASH=withhash!] [count-block{COUNT=count:integer [ANY=any!]}] [order(ASC=asc!|DESC=desc!)] [store(STORE=storekey:key#1|STOREDIST=storedistkey:key#2)]",
        },
        run: Plan::KeysOrEvery { run: georadiusbymember, every: stores_twice },
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEORADIUSBYMEMBER_RO",
            summary: "Finds the members in a circle around a member.",
            complexity: "O(n + log m) for n members in the cells around the circle, of m in all",
            since: "3.2.10",
            group: Group::Geo,
            arity: -5,
            flags: Flags::READONLY,
            explicit: Categories::GEO,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 member:string radius:double unit(M=m!|KM=km!|FT=ft!|MI=mi!) [WITHCOORD=withcoord!] [WITHDIST=withdist!] [WITHHASH=withhash!] [count-block{COUNT=count:integer [ANY=any!]}] [order(ASC=asc!|DESC=desc!)]",
        },
        run: Plan::Keys(georadiusbymember_ro),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEOSEARCH",
            summary: "Finds the members in a circle, a rectangle or a polygon.",
            complexity: "O(n + log m) for n members in the cells around the shape, of m in all",
            since: "6.2.0",
            group: Group::Geo,
            arity: -7,
            flags: Flags::READONLY,
            explicit: Categories::GEO,
            keys: &[KeySpec::first(KeyFlags::RO.with(KeyFlags::ACCESS))],
            tips: &[],
            syntax: "key:key#0 [from(FROMMEMBER=member:string|FROMLONLAT=fromlonlat{longitude:double latitude:double})] by(circle{BYRADIUS=radius:double unit(M=m!|KM=km!|FT=ft!|MI=mi!)}|box{BYBOX=width:double height:double unit(M=m!|KM=km!|FT=ft!|MI=mi!)}|polygon{BYPOLYGON=num-vertices:integer vertices{longitude:double latitude:double}*}@9.0.0) [order(ASC=asc!|DESC=desc!)] [count-block{COUNT=count:integer [ANY=any!]}] [WITHCOORD=withcoord!] [WITHDIST=withdist!] [WITHHASH=withhash!]",
        },
        run: Plan::Keys(geosearch),
        subcommands: &[],
    },
    Command {
        spec: Spec {
            name: "GEOSEARCHSTORE",
            summary: "Finds the members in a circle, a rectangle or a polygon, and stores them.",
            complexity: "O(n + log m) for n members in the cells around the shape, of m in all",
            since: "6.2.0",
            group: Group::Geo,
            arity: -8,
            flags: Flags::WRITE.with(Flags::DENYOOM),
            explicit: Categories::GEO,
            keys: &[
                KeySpec::first(KeyFlags::OW.with(KeyFlags::UPDATE)),
                KeySpec {
                    begin: Begin::Index(2),
                    find: Find::Range { last: 0, step: 1, limit: 0 },
                    flags: KeyFlags::RO.with(KeyFlags::ACCESS),
                    notes: "",
                },
            ],
            tips: &[],
            syntax: "destination:key#0 source:key#1 [from(FROMMEMBER=member:string|FROMLONLAT=fromlonlat{longitude:double latitude:double})] by(circle{BYRADIUS=radius:double unit(M=m!|KM=km!|FT=ft!|MI=mi!)}|box{BYBOX=width:double height:double unit(M=m!|KM=km!|FT=ft!|MI=mi!)}|polygon{BYPOLYGON=num-vertices:integer vertices{longitude:double latitude:double}*}@9.0.0) [order(ASC=asc!|DESC=desc!)] [count-block{COUNT=count:integer [ANY=any!]}] [STOREDIST=storedist!]",
        },
        run: Plan::Keys(geosearchstore),
        subcommands: &[],
    },
];
