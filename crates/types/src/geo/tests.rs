//! Places of the reference, and searches against looking at every place.

use stdx::rng::Rng;

use super::*;

const PALERMO: Point = Point { longitude: 13.361389, latitude: 38.115556 };
const CATANIA: Point = Point { longitude: 15.087269, latitude: 37.502669 };

#[test]
fn places_of_the_reference() {
    assert_eq!(PALERMO.score(), 3_479_099_956_230_698.0);
    assert_eq!(CATANIA.score(), 3_479_447_370_796_909.0);
    let kept = [PALERMO, CATANIA].map(|place| Point::of_score(place.score()));
    assert_eq!(kept[0].longitude, 13.361389338970184);
    assert_eq!(kept[0].latitude, 38.1155563954963);
    assert_eq!(format!("{:.4}", kept[0].distance(kept[1])), "166274.1516");
    assert_eq!(&kept[0].geohash(), b"sqc8b49rny0");
    assert_eq!(&kept[1].geohash(), b"sqdtr74hyu0");
}

#[test]
fn the_edges_of_the_map() {
    let corner = Point { longitude: LONGITUDE_MAX, latitude: LATITUDE_MAX };
    assert!(corner.is_valid());
    assert!(!Point { longitude: 180.000001, latitude: 0.0 }.is_valid());
    assert!(!Point { longitude: 0.0, latitude: f64::NAN }.is_valid());
    assert_eq!(Point { longitude: -LONGITUDE_MAX, latitude: -LATITUDE_MAX }.score(), 0.0);
    assert_eq!(Point::of_score(corner.score()), corner);
    for score in [f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300, -1e300, 1.8e19, 9.3e18, 0.5, f64::MAX] {
        assert!(Point::of_score(score).is_valid(), "{score}");
    }
}

#[test]
fn interleaving_is_undone() {
    let seed = 3;
    let mut rng = Rng::new(seed);
    for _ in 0..10_000 {
        let number = rng.next_u32();
        let bit = |at: u32| u64::from(number >> at & 1) << (2 * at);
        assert_eq!(scatter(number), (0..32).map(bit).sum::<u64>());
        assert_eq!(gather(scatter(number) | rng.next_u64() & 0xaaaa_aaaa_aaaa_aaaa), number);
    }
}

fn random_point(rng: &mut Rng, near: Point, spread: f64) -> Point {
    let mut within = |middle: f64, max: f64| (middle + spread * (rng.unit_f64() - 0.5)).clamp(-max, max);
    let longitude = within(near.longitude, LONGITUDE_MAX);
    Point { longitude, latitude: within(near.latitude, LATITUDE_MAX) }
}

/// A place in the cell of its own score, as a sorted set gives it back.
fn kept(point: Point) -> Point {
    Point::of_score(point.score())
}

fn random_shape(rng: &mut Rng, center: Point, spread: f64) -> Shape {
    let reach = spread * 30_000.0 * (0.1 + rng.unit_f64());
    match rng.below(3) {
        0 => Shape::Circle { center, radius: reach },
        1 => Shape::Rectangle { center, width: reach * (0.1 + rng.unit_f64()), height: reach },
        _ => Shape::polygon((0..3 + rng.below(6)).map(|_| random_point(rng, center, spread / 2.0)).collect()),
    }
}

/// The cells hold whatever the shape holds, none of them twice. Away from the poles and the end of the map, where the peers' cells miss some.
#[test]
fn cells_cover_the_shape() {
    let mut inside = 0;
    for seed in 1..=400 {
        let mut rng = Rng::new(seed);
        let spread = [0.001, 0.1, 3.0, 30.0][rng.range(0..4)];
        let center = random_point(&mut rng, Point { longitude: 0.0, latitude: 0.0 }, 100.0);
        let shape = random_shape(&mut rng, center, spread);
        let ranges: Vec<_> = shape.scores().collect();
        assert!(ranges.len() <= 9, "seed {seed}");
        for (n, range) in ranges.iter().enumerate() {
            assert!(ranges[..n].iter().all(|other| other.end <= range.start || range.end <= other.start));
        }
        for _ in 0..200 {
            let point = kept(random_point(&mut rng, center, spread));
            if shape.distance_within(point).is_some() {
                let score = point.score() as u64;
                assert!(
                    ranges.iter().any(|range| range.contains(&score)),
                    "seed {seed}: {shape:?} {point:?}"
                );
                inside += 1;
            }
        }
    }
    assert!(inside > 4_000, "{inside}");
}

#[test]
fn inside_a_polygon() {
    // A U, open to the north.
    let corners =
        [(0.0, 0.0), (6.0, 0.0), (6.0, 6.0), (4.0, 6.0), (4.0, 2.0), (2.0, 2.0), (2.0, 6.0), (0.0, 6.0)];
    let point = |(longitude, latitude): (f64, f64)| Point { longitude, latitude };
    for turn in 0..corners.len() {
        let mut vertices: Vec<Point> = corners.map(point).to_vec();
        vertices.rotate_left(turn);
        let shape = Shape::polygon(vertices);
        for inside in [(1.0, 1.0), (3.0, 1.0), (1.0, 5.0), (5.0, 5.9)] {
            assert!(shape.distance_within(point(inside)).is_some(), "{inside:?}");
        }
        for outside in [(3.0, 3.0), (-1.0, 1.0), (7.0, 1.0), (3.0, 7.0), (3.0, -1.0), (-1.0, 2.0)] {
            assert!(shape.distance_within(point(outside)).is_none(), "{outside:?}");
        }
    }
}
