//! Places on the globe as scores of a sorted set: interleaved cells, distances, and which cells a shape touches.
//!
//! The sums, constants and their order are those of the peers, so that scores, distances, hashes and the order in which members are found are
//! the same. Distances are in metres on a sphere, coordinates in degrees. Not the sorted set itself.
//!
//! ```text
//! score, 52 bits: longitude 25, latitude 25, longitude 24, ... longitude 0, latitude 0, each of 26 bits: the number of the strip of
//! the globe between the bounds below. A cell of step s is what the highest 2 s bits have in common.
//! ```

mod shape;

pub use shape::Shape;

/// Degrees, both ends included.
pub const LONGITUDE_MAX: f64 = 180.0;
/// Degrees, both ends included: the limit of a square Mercator map.
pub const LATITUDE_MAX: f64 = 85.051_128_78;

/// Metres.
const EARTH_RADIUS: f64 = 6_372_797.560_856;

/// Bits of a coordinate in a score.
const STEP_MAX: u32 = 26;

/// A place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// -180 to 180 degrees.
    pub longitude: f64,
    /// -85.05112878 to 85.05112878 degrees.
    pub latitude: f64,
}

impl Point {
    /// Whether a score can hold the place.
    pub fn is_valid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// The score of a place, which must be valid.
    pub fn score(self) -> f64 {
        Cell::of(self, STEP_MAX, LATITUDE_MAX).bits() as f64
    }

    /// The middle of a score's cell. Any score gives one: what lies beyond the bounds is moved to them.
    pub fn of_score(score: f64) -> Point {
        Cell::of_bits(bits_of_score(score)).middle()
    }

    /// Metres to another place along a great circle, by the haversine formula.
    pub fn distance(self, other: Point) -> f64 {
        let half_chord = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if half_chord == 0.0 {
            return self.distance_north(other);
        }
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let rise = ((to - from) / 2.0).sin();
        let sum = rise * rise + from.cos() * to.cos() * half_chord * half_chord;
        // Between antipodes the sum may be rounded to more than 1.
        2.0 * EARTH_RADIUS * sum.sqrt().min(1.0).asin()
    }

    /// Metres to the latitude of another place.
    fn distance_north(self, other: Point) -> f64 {
        EARTH_RADIUS * (other.latitude.to_radians() - self.latitude.to_radians()).abs()
    }

    /// The geohash of eleven characters (geohash.org). Its cells go up to the poles, so it is another number than the score; the last character
    /// has too few bits and is always `0`.
    pub fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::of(self, STEP_MAX, 90.0).bits();
        std::array::from_fn(|at| match at {
            10 => b'0',
            _ => ALPHABET[(bits >> (2 * STEP_MAX as usize - 5 * (at + 1))) as usize & 31],
        })
    }
}

/// A score as an integer of 64 bits, whatever it is: with the wrap-around of the peers' processors, for scores that are no places.
fn bits_of_score(score: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    let truncated = |score: f64| if (-HALF..HALF).contains(&score) { score as i64 } else { i64::MIN };
    if score < HALF { truncated(score) as u64 } else { truncated(score - HALF) as u64 ^ 1 << 63 }
}

/// A square of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// Strips from the west and the south. At the very end of the map one more than there are.
    longitude: u32,
    latitude: u32,
    /// Bits of each.
    step: u32,
}

impl Cell {
    /// The cell of a place on a map up to this latitude.
    fn of(point: Point, step: u32, latitude_max: f64) -> Cell {
        let strips = (1_u64 << step) as f64;
        let strip = |value: f64, max: f64| ((value + max) / (max + max) * strips) as u32;
        let (longitude, latitude) =
            (strip(point.longitude, LONGITUDE_MAX), strip(point.latitude, latitude_max));
        Cell { longitude, latitude, step }
    }

    fn of_bits(bits: u64) -> Cell {
        Cell { longitude: gather(bits >> 1), latitude: gather(bits), step: STEP_MAX }
    }

    fn bits(self) -> u64 {
        scatter(self.longitude) << 1 | scatter(self.latitude)
    }

    /// The scores that lie in the cell.
    fn scores(self) -> std::ops::Range<u64> {
        let shift = 2 * (STEP_MAX - self.step);
        self.bits() << shift..(self.bits() + 1) << shift
    }

    /// The cell so many strips to the east and the north, around the map where it ends.
    fn neighbour(self, east: i32, north: i32) -> Cell {
        let mask = (1 << self.step) - 1;
        let moved = |strip: u32, by: i32| if by == 0 { strip } else { strip.wrapping_add_signed(by) & mask };
        Cell { longitude: moved(self.longitude, east), latitude: moved(self.latitude, north), ..self }
    }

    /// West, south, east and north end, in degrees.
    fn bounds(self) -> Bounds {
        let strips = (1_u64 << self.step) as f64;
        let end = |strip: f64, max: f64| -max + strip / strips * (max + max);
        let (longitude, latitude) = (f64::from(self.longitude), f64::from(self.latitude));
        Bounds {
            west: end(longitude, LONGITUDE_MAX),
            south: end(latitude, LATITUDE_MAX),
            east: end(longitude + 1.0, LONGITUDE_MAX),
            north: end(latitude + 1.0, LATITUDE_MAX),
        }
    }

    fn middle(self) -> Point {
        let bounds = self.bounds();
        Point {
            longitude: ((bounds.west + bounds.east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: ((bounds.south + bounds.north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }
}

/// Ends of a part of the map, in degrees.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

/// The bits of a number with a zero between each two (Morton code).
fn scatter(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Every second bit, from the lowest on.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

#[cfg(test)]
mod tests;
