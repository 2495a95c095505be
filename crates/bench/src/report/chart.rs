//! Charts as SVG, written by hand: lines, stacked areas, two axes, a legend. Colours are classes, so that the style sheet of the page
//! decides them for light and dark; everything else is in the markup.

use std::fmt::Write as _;

/// A box that suits half a page and a phone.
const NARROW: Size = Size { width: 460.0, height: 250.0 };
/// One that suits a whole page.
const WIDE: Size = Size { width: 980.0, height: 270.0 };
/// Room for the labels of the axes.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
/// Half of the width of a letter.
const HALF_LETTER: f64 = 3.4;
/// Colours that the style sheet has.
pub const COLOURS: usize = 6;

#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
}

/// Where figures lie between two ends, and which of them are named.
#[derive(Clone, Debug)]
pub struct Axis {
    pub from: f64,
    pub to: f64,
    pub logarithmic: bool,
    pub ticks: Vec<(f64, String)>,
    /// What the axis shows, with its unit.
    pub label: String,
}

impl Axis {
    /// From zero to a little above `most`, with names made by `name`. `base` is what prefixes of the unit are powers of: 1000, 1024, or 60
    /// for time.
    pub fn linear(label: &str, most: f64, base: f64, name: impl Fn(f64) -> String) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        // A line along the upper edge would look cut off; time has no such edge, and short names.
        let is_time = base == 60.0;
        let most = if is_time { most } else { most * 1.04 };
        let step = step(most / if is_time { 6.0 } else { 4.0 }, base);
        let to = (most / step).ceil() * step;
        let ticks = (0..=(to / step).round() as u32).map(|n| f64::from(n) * step);
        Self {
            from: 0.0,
            to,
            logarithmic: false,
            ticks: ticks.map(|at| (at, if at == 0.0 { "0".into() } else { name(at) })).collect(),
            label: label.into(),
        }
    }

    /// Of time: from zero to exactly `most` seconds.
    pub fn seconds(most: f64) -> Self {
        let name = |at: f64| if at < 120.0 { format!("{at:.0}") } else { minutes(at) };
        let mut axis = Self::linear(if most < 120.0 { "seconds" } else { "minutes" }, most, 60.0, name);
        axis.to = most.max(1.0);
        axis.ticks.retain(|(at, _)| *at <= most + 1e-9);
        if most >= 120.0 {
            axis.ticks.iter_mut().for_each(|(at, text)| *text = minutes(*at));
        }
        axis
    }

    /// Logarithmic, over the decades (or their halves) around `least` and `most`.
    pub fn logarithmic(label: &str, least: f64, most: f64, name: impl Fn(f64) -> String) -> Self {
        let least = if least > 0.0 { least } else { 1.0 };
        let most = most.max(least * 1.01);
        let marks: Vec<f64> =
            (-3..15).flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade))).collect();
        let first = marks.iter().rposition(|mark| *mark <= least * 1.0001).unwrap_or(0);
        let last = marks.iter().position(|mark| *mark >= most * 0.9999).unwrap_or(marks.len() - 1);
        let every = if last - first > 6 { 3 } else { 1 };
        let named = |place: &usize| every == 1 || place.is_multiple_of(3);
        let ticks = (first..=last).filter(named).map(|place| (marks[place], name(marks[place])));
        Self {
            from: marks[first],
            to: marks[last],
            logarithmic: true,
            ticks: ticks.collect(),
            label: label.into(),
        }
    }

    /// 0 at the lower end, 1 at the upper.
    fn place(&self, figure: f64) -> f64 {
        let place = if self.logarithmic {
            (figure.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (figure - self.from) / (self.to - self.from)
        };
        place.clamp(0.0, 1.0)
    }
}

fn minutes(seconds: f64) -> String {
    format!("{}:{:02}", seconds as u64 / 60, seconds as u64 % 60)
}

/// The least round figure that is not below `least`: 1, 2 or 5 times a power of ten; a power of two for bytes; whole seconds and minutes
/// for time.
fn step(least: f64, base: f64) -> f64 {
    if base == 60.0 {
        let marks = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0];
        return marks.into_iter().find(|mark| *mark >= least).unwrap_or((least / 3600.0).ceil() * 3600.0);
    }
    if base == 1024.0 {
        return 2f64.powf(least.log2().ceil()).max(1.0);
    }
    let decade = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
    steps.into_iter().find(|mark| *mark >= least * 0.999).unwrap_or(least)
}

/// One line or area.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// An index of the style sheet's colours.
    pub colour: usize,
    pub dashed: bool,
    /// Points from left to right; where there is nothing, the line has a gap.
    pub points: Vec<(f64, Option<f64>)>,
}

/// What is to be drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Areas on top of each other instead of lines. All series have the same places then.
    pub stacked: bool,
    /// Stretches of the x axis to be marked as bad.
    pub bands: Vec<(f64, f64)>,
    /// What is told about a stretch of the x axis when pointed at.
    pub hints: Vec<(f64, f64, String)>,
    /// Over the whole width of the page.
    pub wide: bool,
}

impl Chart {
    /// An HTML figure with the chart and its legend.
    pub fn figure(&self) -> String {
        let drawings = if self.wide {
            format!(
                "<div class=\"wide\">{}</div><div class=\"narrow\">{}</div>",
                self.svg(WIDE),
                self.svg(NARROW)
            )
        } else {
            self.svg(NARROW)
        };
        let class = if self.wide { " class=\"whole\"" } else { "" };
        let title = escape(&self.title);
        format!("<figure{class}>\n<figcaption>{title}{}</figcaption>\n{drawings}</figure>\n", self.legend())
    }

    fn legend(&self) -> String {
        let key = |series: &Series| {
            let dashed = if series.dashed { " dashed" } else { "" };
            format!("<span class=\"key c{}{dashed}\">{}</span>", series.colour, escape(&series.name))
        };
        let keys: Vec<String> = self.series.iter().map(key).collect();
        format!("<span class=\"legend\">{}</span>", keys.join(" "))
    }

    fn svg(&self, size: Size) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
            size.width,
            size.height,
            escape(&self.title)
        );
        self.draw_axes(size, &mut svg);
        for (from, to) in &self.bands {
            let (left, right) = (self.across(size, *from), self.across(size, *to));
            let (width, height) = (right - left, size.height - TOP - BOTTOM);
            let _ = writeln!(
                svg,
                "<rect class=\"band\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
            );
        }
        if self.stacked {
            self.draw_areas(size, &mut svg)
        } else {
            self.draw_lines(size, &mut svg)
        }
        self.draw_hints(size, &mut svg);
        svg + "</svg>\n"
    }

    fn across(&self, size: Size, figure: f64) -> f64 {
        LEFT + self.x.place(figure) * (size.width - LEFT - RIGHT)
    }

    fn down(&self, size: Size, figure: f64) -> f64 {
        size.height - BOTTOM - self.y.place(figure) * (size.height - TOP - BOTTOM)
    }

    fn draw_axes(&self, size: Size, svg: &mut String) {
        let (right, floor) = (size.width - RIGHT, size.height - BOTTOM);
        for (at, name) in &self.y.ticks {
            let y = self.down(size, *at);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right:.1}\"/>");
            let _ = writeln!(
                svg,
                "<text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                escape(name)
            );
        }
        for (at, name) in &self.x.ticks {
            let x = self.across(size, *at);
            let _ = writeln!(svg, "<path class=\"tick\" d=\"M{x:.1} {floor:.1}v4\"/>");
            // A name that would leave the chart ends at its edge.
            let leaves = x + name.chars().count() as f64 * HALF_LETTER > size.width;
            let class = if leaves { "x end" } else { "x" };
            let (text_x, y) = (if leaves { size.width - 1.0 } else { x }, floor + 16.0);
            let _ = writeln!(
                svg,
                "<text class=\"{class}\" x=\"{text_x:.1}\" y=\"{y:.1}\">{}</text>",
                escape(name)
            );
        }
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {floor:.1}H{right:.1}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"label\" x=\"{right:.1}\" y=\"{:.1}\">{}</text>",
            size.height - 3.0,
            escape(&self.x.label)
        );
    }

    fn draw_lines(&self, size: Size, svg: &mut String) {
        for series in &self.series {
            let dashed = if series.dashed { " dashed" } else { "" };
            for stretch in series.points.split(|(_, figure)| figure.is_none()) {
                let place = |(at, figure): &(f64, Option<f64>)| {
                    (self.across(size, *at), self.down(size, figure.unwrap_or(0.0)))
                };
                match stretch {
                    [] => {}
                    [alone] => {
                        let (x, y) = place(alone);
                        let _ = writeln!(
                            svg,
                            "<circle class=\"c{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>",
                            series.colour
                        );
                    }
                    more => {
                        let points: Vec<(f64, f64)> = more.iter().map(place).collect();
                        let path = path(&points);
                        let _ =
                            writeln!(svg, "<path class=\"line c{}{dashed}\" d=\"M{path}\"/>", series.colour);
                    }
                }
            }
        }
    }

    /// Each area from the sum of those before it to its own; places without a figure count as zero.
    fn draw_areas(&self, size: Size, svg: &mut String) {
        let Some(first) = self.series.first() else { return };
        let mut below: Vec<f64> = vec![0.0; first.points.len()];
        for series in &self.series {
            let above: Vec<f64> = series
                .points
                .iter()
                .zip(&below)
                .map(|((_, figure), sum)| sum + figure.unwrap_or(0.0))
                .collect();
            let edge = |sums: &[f64]| -> Vec<(f64, f64)> {
                let at = |(point, sum): (&(f64, Option<f64>), &f64)| {
                    (self.across(size, point.0), self.down(size, *sum))
                };
                let mut edge: Vec<(f64, f64)> = series.points.iter().zip(sums).map(at).collect();
                // A single second is a bar as wide as the chart.
                if let [(_, y)] = edge[..] {
                    edge = vec![(LEFT, y), (size.width - RIGHT, y)];
                }
                edge
            };
            let (top, mut bottom) = (edge(&above), edge(&below));
            bottom.reverse();
            let colour = series.colour;
            let _ =
                writeln!(svg, "<path class=\"area c{colour}\" d=\"M{}L{}Z\"/>", path(&top), path(&bottom));
            let _ = writeln!(svg, "<path class=\"line c{colour}\" d=\"M{}\"/>", path(&top));
            below = above;
        }
    }

    fn draw_hints(&self, size: Size, svg: &mut String) {
        for (from, to, text) in &self.hints {
            let (left, right) = (self.across(size, *from), self.across(size, *to));
            let (width, height) = (right - left, size.height - TOP - BOTTOM);
            let _ = writeln!(
                svg,
                "<rect class=\"hint\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
                escape(text)
            );
        }
    }
}

fn path(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect::<Vec<_>>().join("L")
}

/// Text as it may stand in markup and in attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn axes_end_at_round_figures() {
        let axis = Axis::linear("", 412_345.0, 1000.0, crate::units::short);
        assert_eq!((axis.to, names(&axis)), (600_000.0, vec!["0", "200k", "400k", "600k"]));
        let axis = Axis::linear("", 900.0 * 1048576.0, 1024.0, crate::units::bytes);
        assert_eq!(names(&axis), ["0", "256 MiB", "512 MiB", "768 MiB", "1.00 GiB"]);
        assert_eq!(names(&Axis::seconds(29.5)), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!(names(&Axis::seconds(300.0)), ["0:00", "1:00", "2:00", "3:00", "4:00", "5:00"]);
        assert_eq!(Axis::linear("", 0.0, 1000.0, crate::units::short).to, 1.5);
        let axis = Axis::logarithmic("", 130_000.0, 21e6, crate::units::nanos);
        assert_eq!(names(&axis), ["100 us", "1.00 ms", "10.0 ms"]);
        assert_eq!((axis.from, axis.to), (1e5, 5e7));
        let axis = Axis::logarithmic("", 150_000.0, 410_000.0, crate::units::nanos);
        assert_eq!(names(&axis), ["100 us", "200 us", "500 us"]);
    }

    #[test]
    fn gaps_and_single_points_are_drawn() {
        let series = Series {
            name: "a <b>".into(),
            colour: 0,
            dashed: true,
            points: vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0)), (3.0, Some(2.0))],
        };
        let chart = Chart {
            title: "t".into(),
            x: Axis::seconds(3.0),
            y: Axis::linear("y", 3.0, 1000.0, crate::units::short),
            series: vec![series],
            stacked: false,
            bands: vec![(0.5, 1.5)],
            hints: vec![(0.0, 1.0, "hint".into())],
            wide: false,
        };
        let text = chart.figure();
        assert_eq!((text.matches("<circle").count(), text.matches("class=\"line").count()), (1, 1));
        assert!(
            text.contains("a &lt;b&gt;") && text.contains("class=\"band\"") && text.contains("<title>hint")
        );
        let wide = Chart { wide: true, stacked: true, ..chart }.figure();
        assert_eq!((wide.matches("<svg").count(), wide.matches("class=\"area").count()), (2, 2));
    }
}
