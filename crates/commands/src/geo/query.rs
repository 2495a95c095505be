//! What a search asks for: the words of GEOSEARCH, GEOSEARCHSTORE and the four GEORADIUS.

use command::CommandError;
use resp::Args;
use stdx::num::{parse_f64, parse_i64};
use types::geo::{Point, Shape};
use types::zset::SortedSet;

use super::{point, unit};
use crate::text::quoted;

const COUNT: CommandError = CommandError::fixed("ERR COUNT must be > 0");
const ANY_WITHOUT_COUNT: CommandError = CommandError::fixed("ERR the ANY argument requires COUNT argument");
const RADIUS: CommandError = CommandError::fixed("ERR need numeric radius");
const RADIUS_NEGATIVE: CommandError = CommandError::fixed("ERR radius cannot be negative");
const WIDTH: CommandError = CommandError::fixed("ERR need numeric width");
const HEIGHT: CommandError = CommandError::fixed("ERR need numeric height");
const BOX_NEGATIVE: CommandError = CommandError::fixed("ERR height or width cannot be negative");
const VERTICES_FEW: CommandError =
    CommandError::fixed("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
const VERTICES: CommandError = CommandError::fixed("ERR invalid number of vertices");

/// Which command it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// GEORADIUS and GEORADIUS_RO
    Around { stores: bool },
    /// GEORADIUSBYMEMBER and GEORADIUSBYMEMBER_RO
    AroundMember { stores: bool },
    /// GEOSEARCH
    Search,
    /// GEOSEARCHSTORE
    SearchStore,
}

impl Kind {
    fn is_search(self) -> bool {
        matches!(self, Kind::Search | Kind::SearchStore)
    }
}

/// In which order members are given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As the cells are gone through.
    AsFound,
    Nearest,
    Farthest,
}

/// A search.
pub(super) struct Query {
    /// None only if there is no sorted set.
    pub(super) shape: Option<Shape>,
    /// Metres of the unit of distances.
    pub(super) unit: f64,
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_place: bool,
    /// The most members that are given.
    pub(super) count: Option<usize>,
    /// Any of them will do: the first that are found.
    pub(super) any: bool,
    pub(super) order: Order,
    /// The word that names the destination.
    pub(super) store: Option<usize>,
    /// Scores in the destination are distances.
    pub(super) store_distance: bool,
}

/// What the words have said so far about where to search.
#[derive(Default)]
struct Where {
    center: Option<Point>,
    from_member: bool,
    from_place: bool,
    extent: Option<Extent>,
}

enum Extent {
    Radius(f64),
    Box { width: f64, height: f64 },
    Polygon(Shape),
}

impl Where {
    fn is_polygon(&self) -> bool {
        matches!(self.extent, Some(Extent::Polygon(_)))
    }

    fn shape(self) -> Option<Shape> {
        Some(match (self.extent?, self.center) {
            (Extent::Polygon(shape), _) => shape,
            (Extent::Radius(radius), center) => Shape::Circle { center: center?, radius },
            (Extent::Box { width, height }, center) => Shape::Rectangle { center: center?, width, height },
        })
    }
}

impl Query {
    /// Reads the words of a command. `set` is what there is to search.
    pub(super) fn parse(
        args: Args<'_>,
        kind: Kind,
        set: Option<SortedSet<'_>>,
    ) -> Result<Query, CommandError> {
        let mut query = Query {
            shape: None,
            unit: 1.0,
            with_distance: false,
            with_hash: false,
            with_place: false,
            count: None,
            any: false,
            order: Order::AsFound,
            store: None,
            store_distance: false,
        };
        let mut place = Where::default();
        let mut at = query.head(args, kind, set, &mut place)?;
        while at < args.len() {
            let words = match query.option(args, at, kind)? {
                0 if kind.is_search() => query.place(args, at, set, &mut place)?,
                words => words,
            };
            if words == 0 {
                return Err(CommandError::SYNTAX);
            }
            at += words;
        }
        query.check(args, kind, &place)?;
        query.shape = place.shape();
        Ok(query)
    }

    /// The words at fixed places; where the options begin.
    fn head(
        &mut self,
        args: Args<'_>,
        kind: Kind,
        set: Option<SortedSet<'_>>,
        place: &mut Where,
    ) -> Result<usize, CommandError> {
        let radius_at = match kind {
            Kind::Search => return Ok(2),
            Kind::SearchStore => {
                self.store = Some(1);
                return Ok(3);
            }
            Kind::Around { .. } => {
                place.center = Some(point(&args[2], &args[3])?);
                4
            }
            Kind::AroundMember { .. } => {
                // Without a set the radius is not even looked at.
                let Some(set) = set else { return Ok(5) };
                place.center = Some(member_place(set, &args[2])?);
                3
            }
        };
        place.extent = Some(self.radius(args, radius_at)?);
        Ok(radius_at + 2)
    }

    /// An option that does not tell where to search: how many words it takes, 0 if there is none here.
    fn option(&mut self, args: Args<'_>, at: usize, kind: Kind) -> Result<usize, CommandError> {
        let word = &args[at];
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let has_next = at + 1 < args.len();
        let may_store = matches!(kind, Kind::Around { stores: true } | Kind::AroundMember { stores: true });
        match () {
            () if is("WITHDIST") => self.with_distance = true,
            () if is("WITHHASH") => self.with_hash = true,
            () if is("WITHCOORD") => self.with_place = true,
            () if is("ANY") => self.any = true,
            () if is("ASC") => self.order = Order::Nearest,
            () if is("DESC") => self.order = Order::Farthest,
            () if is("STOREDIST") && kind == Kind::SearchStore => self.store_distance = true,
            () if is("COUNT") && has_next => {
                let count = parse_i64(&args[at + 1]).ok_or(CommandError::NOT_AN_INTEGER)?;
                self.count = Some(usize::try_from(count).ok().filter(|count| *count > 0).ok_or(COUNT)?);
                return Ok(2);
            }
            () if may_store && has_next && (is("STORE") || is("STOREDIST")) => {
                self.store = Some(at + 1);
                self.store_distance = is("STOREDIST");
                return Ok(2);
            }
            () => return Ok(0),
        }
        Ok(1)
    }

    /// An option of GEOSEARCH that tells where to search: how many words it takes, 0 if there is none here.
    fn place(
        &mut self,
        args: Args<'_>,
        at: usize,
        set: Option<SortedSet<'_>>,
        place: &mut Where,
    ) -> Result<usize, CommandError> {
        let is = |name: &str, words: usize| {
            args[at].eq_ignore_ascii_case(name.as_bytes()) && at + words < args.len()
        };
        let may_be = |extent: fn(&Extent) -> bool| place.extent.as_ref().is_none_or(extent);
        match () {
            () if is("FROMMEMBER", 1) && !place.from_place && !place.is_polygon() => {
                place.from_member = true;
                if let Some(set) = set {
                    place.center = Some(member_place(set, &args[at + 1])?);
                }
                Ok(2)
            }
            () if is("FROMLONLAT", 2) && !place.from_member && !place.is_polygon() => {
                place.from_place = true;
                place.center = Some(point(&args[at + 1], &args[at + 2])?);
                Ok(3)
            }
            () if is("BYRADIUS", 2) && may_be(|extent| matches!(extent, Extent::Radius(_))) => {
                place.extent = Some(self.radius(args, at + 1)?);
                Ok(3)
            }
            () if is("BYBOX", 3) && may_be(|extent| matches!(extent, Extent::Box { .. })) => {
                let width = parse_f64(&args[at + 1]).ok_or(WIDTH)?;
                let height = parse_f64(&args[at + 2]).ok_or(HEIGHT)?;
                if width < 0.0 || height < 0.0 {
                    return Err(BOX_NEGATIVE);
                }
                self.unit = unit(&args[at + 3])?;
                place.extent = Some(Extent::Box { width: width * self.unit, height: height * self.unit });
                Ok(4)
            }
            () if is("BYPOLYGON", 2)
                && !place.from_member
                && !place.from_place
                && may_be(|extent| matches!(extent, Extent::Polygon(_))) =>
            {
                let (polygon, words) = polygon(args, at + 1)?;
                place.extent = Some(Extent::Polygon(polygon));
                Ok(words + 1)
            }
            () => Ok(0),
        }
    }

    /// A radius and its unit.
    fn radius(&mut self, args: Args<'_>, at: usize) -> Result<Extent, CommandError> {
        let radius = parse_f64(&args[at]).ok_or(RADIUS)?;
        if radius < 0.0 {
            return Err(RADIUS_NEGATIVE);
        }
        self.unit = unit(&args[at + 1])?;
        Ok(Extent::Radius(radius * self.unit))
    }

    fn check(&self, args: Args<'_>, kind: Kind, place: &Where) -> Result<(), CommandError> {
        let name = quoted(&args[0]);
        if self.store.is_some() && (self.with_distance || self.with_hash || self.with_place) {
            let what = if kind.is_search() { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(CommandError::new(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        if kind.is_search() && !place.from_member && !place.from_place && !place.is_polygon() {
            return Err(CommandError::new(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
            )));
        }
        if kind.is_search() && place.extent.is_none() {
            return Err(CommandError::new(format!(
                "ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for {name}"
            )));
        }
        if self.any && self.count.is_none() { Err(ANY_WITHOUT_COUNT) } else { Ok(()) }
    }
}

/// Where a member is.
fn member_place(set: SortedSet<'_>, member: &[u8]) -> Result<Point, CommandError> {
    let score = set.score(member);
    let missing = || CommandError::new(format!("ERR member {} does not exist", quoted(member)));
    score.map(Point::of_score).ok_or_else(missing)
}

/// The polygon whose number of vertices is word `at`, and how many words it takes.
fn polygon(args: Args<'_>, at: usize) -> Result<(Shape, usize), CommandError> {
    let count = parse_i64(&args[at]).and_then(|count| i32::try_from(count).ok()).ok_or(VERTICES)?;
    let count = usize::try_from(count).unwrap_or(0);
    let words = args.from(at + 1);
    if count < 3 || words.len() / 2 < count {
        return Err(VERTICES_FEW);
    }
    let mut vertices = Vec::with_capacity(count);
    for vertex in 0..count {
        vertices.push(point(&words[2 * vertex], &words[2 * vertex + 1])?);
    }
    Ok((Shape::polygon(vertices), 1 + 2 * count))
}
