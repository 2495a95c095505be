//! Shapes that places are searched in, and the cells that cover them.

use std::f64::consts::PI;
use std::ops::Range;

use super::{Bounds, Cell, EARTH_RADIUS, LATITUDE_MAX, Point, STEP_MAX};

/// Half the circumference of the square map, in metres.
const MAP_HALF: f64 = 20_037_726.37;

/// A part of the globe. Lengths are in metres.
#[derive(Clone, Debug)]
pub enum Shape {
    Circle {
        center: Point,
        radius: f64,
    },
    /// Along the parallels and meridians.
    Rectangle {
        center: Point,
        width: f64,
        height: f64,
    },
    Polygon {
        center: Point,
        vertices: Box<[Point]>,
    },
}

impl Shape {
    /// The polygon with these vertices (at least 3). Its center is their mean in space, seen from the middle of the globe.
    pub fn polygon(vertices: Vec<Point>) -> Shape {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for vertex in &vertices {
            let (longitude, latitude) = (vertex.longitude.to_radians(), vertex.latitude.to_radians());
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        let count = vertices.len() as f64;
        let (x, y, z) = (x / count, y / count, z / count);
        let longitude = degrees(y.atan2(x));
        let latitude = degrees(z.atan2((x * x + y * y).sqrt()));
        Shape::Polygon { center: Point { longitude, latitude }, vertices: vertices.into() }
    }

    /// From where distances are told.
    pub fn center(&self) -> Point {
        match self {
            Shape::Circle { center, .. }
            | Shape::Rectangle { center, .. }
            | Shape::Polygon { center, .. } => *center,
        }
    }

    /// Metres from the center to a place, if it lies within the shape.
    pub fn distance_within(&self, point: Point) -> Option<f64> {
        match self {
            Shape::Circle { center, radius } => {
                Some(center.distance(point)).filter(|distance| distance <= radius)
            }
            Shape::Rectangle { center, width, height } => {
                // The width is measured on the place's own parallel.
                let beside = Point { longitude: center.longitude, ..point };
                let within =
                    point.distance_north(*center) <= height / 2.0 && point.distance(beside) <= width / 2.0;
                within.then(|| center.distance(point))
            }
            Shape::Polygon { center, vertices } => encloses(vertices, point).then(|| center.distance(point)),
        }
    }

    /// Ranges of scores that all places of the shape lie in, as the peers go through them: the cell of the center, then those around it which
    /// the shape reaches. At most nine; the step between cells is so chosen that these suffice.
    pub fn scores(&self) -> impl Iterator<Item = Range<u64>> {
        const AROUND: [(i32, i32); 9] =
            [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let bounds = self.bounds();
        let mut step = step_for(self.reach(&bounds), self.center().latitude);
        let mut cell = Cell::of(self.center(), step, LATITUDE_MAX);
        if step > 1 && !covers(cell, &bounds) {
            step -= 1;
            cell = Cell::of(self.center(), step, LATITUDE_MAX);
        }
        let own = cell.bounds();
        let reaches = move |(east, north): (i32, i32)| {
            let beyond = |toward: i32, low: bool, high: bool| match toward {
                -1 => low,
                1 => high,
                _ => true,
            };
            step < 2
                || beyond(east, own.west >= bounds.west, own.east <= bounds.east)
                    && beyond(north, own.south >= bounds.south, own.north <= bounds.north)
        };
        let cells = AROUND.into_iter().filter(move |toward| reaches(*toward));
        let mut last: Option<(Cell, bool)> = None;
        cells.filter_map(move |(east, north)| {
            let next = cell.neighbour(east, north);
            let is_center = (east, north) == (0, 0);
            // On a map of few cells the same one lies on both sides. Only neighbours are compared with each other.
            if last.is_some_and(|(last, was_center)| !was_center && last == next) {
                return None;
            }
            last = Some((next, is_center));
            Some(next.scores())
        })
    }

    /// The part of the map that holds the shape.
    fn bounds(&self) -> Bounds {
        let (height, width) = match self {
            Shape::Circle { radius, .. } => (*radius, *radius),
            Shape::Rectangle { width, height, .. } => (height / 2.0, width / 2.0),
            Shape::Polygon { vertices, .. } => return bounds_of(vertices),
        };
        let Point { longitude, latitude } = self.center();
        let rise = degrees(height / EARTH_RADIUS);
        let run = |latitude: f64| degrees(width / EARTH_RADIUS / latitude.to_radians().cos());
        // Parallels are shorter towards the pole, so that is where the shape is widest in degrees.
        let run = if latitude < 0.0 { run(latitude - rise) } else { run(latitude + rise) };
        Bounds {
            west: longitude - run,
            south: latitude - rise,
            east: longitude + run,
            north: latitude + rise,
        }
    }

    /// Metres from the center that contain the shape.
    fn reach(&self, bounds: &Bounds) -> f64 {
        match self {
            Shape::Circle { radius, .. } => *radius,
            Shape::Rectangle { width, height, .. } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
            Shape::Polygon { center, .. } => {
                let corner = |longitude, latitude| center.distance(Point { longitude, latitude });
                corner(bounds.west, bounds.north)
                    .max(corner(bounds.east, bounds.north))
                    .max(corner(bounds.west, bounds.south))
                    .max(corner(bounds.east, bounds.south))
            }
        }
    }
}

/// Divided, not multiplied by the inverse as `to_degrees` does: the last bit may differ.
fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

fn bounds_of(vertices: &[Point]) -> Bounds {
    let start = Bounds {
        west: f64::INFINITY,
        south: f64::INFINITY,
        east: f64::NEG_INFINITY,
        north: f64::NEG_INFINITY,
    };
    vertices.iter().fold(start, |bounds, vertex| Bounds {
        west: bounds.west.min(vertex.longitude),
        south: bounds.south.min(vertex.latitude),
        east: bounds.east.max(vertex.longitude),
        north: bounds.north.max(vertex.latitude),
    })
}

/// The step of cells of which nine cover a circle of `reach` metres.
fn step_for(reach: f64, latitude: f64) -> u32 {
    if reach == 0.0 {
        return STEP_MAX;
    }
    let (mut reach, mut step) = (reach, 1_i32);
    while reach < MAP_HALF {
        reach *= 2.0;
        step += 1;
    }
    // Two coarser, for the center may lie at a cell's edge; towards the poles cells are narrow.
    step -= 2;
    if latitude.abs() > 66.0 {
        step -= if latitude.abs() > 80.0 { 2 } else { 1 };
    }
    step.clamp(1, STEP_MAX as i32) as u32
}

/// Whether the cells around `cell` reach as far as the bounds.
fn covers(cell: Cell, bounds: &Bounds) -> bool {
    cell.neighbour(0, 1).bounds().north >= bounds.north
        && cell.neighbour(0, -1).bounds().south <= bounds.south
        && cell.neighbour(1, 0).bounds().east >= bounds.east
        && cell.neighbour(-1, 0).bounds().west <= bounds.west
}

/// Whether a ray from the place to the east crosses the polygon's edges an odd number of times.
fn encloses(vertices: &[Point], point: Point) -> bool {
    let before = vertices.iter().cycle().skip(vertices.len() - 1);
    vertices.iter().zip(before).fold(false, |inside, (a, b)| {
        let spans = (a.latitude > point.latitude) != (b.latitude > point.latitude);
        let crosses = spans
            && point.longitude
                < (b.longitude - a.longitude) * (point.latitude - a.latitude) / (b.latitude - a.latitude)
                    + a.longitude;
        inside != crosses
    })
}
