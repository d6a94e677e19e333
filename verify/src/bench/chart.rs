//! Curves as SVG.

use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::BenchError;

/// What a drawing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Curve {
    /// Against the pages of the working set.
    WorkingSet,
    /// Against the hops of the page table.
    Hops,
    /// Against the page size.
    PageSize,
    /// Against the latency of memory.
    Latency,
    /// Against the reads in flight.
    ReadsInFlight,
}

impl Curve {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::WorkingSet, Self::Hops, Self::PageSize, Self::Latency, Self::ReadsInFlight];

    /// Its title.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::WorkingSet => "Random requests against working set",
            Self::Hops => "Misses against hops (latency 250, 128 reads in flight)",
            Self::PageSize => "Random requests to 1 GiB against page size",
            Self::Latency => "Misses against memory latency (2 hops, MPT warm)",
            Self::ReadsInFlight => "Misses against reads in flight (2 hops, MPT warm)",
        }
    }

    /// Name of its file.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::WorkingSet => "working-set.svg",
            Self::Hops => "hops.svg",
            Self::PageSize => "page-size.svg",
            Self::Latency => "latency.svg",
            Self::ReadsInFlight => "reads-in-flight.svg",
        }
    }

    fn x_name(self) -> &'static str {
        match self {
            Self::WorkingSet => "working set [pages of 4 KiB]",
            Self::Hops => "hops of the page table",
            Self::PageSize => "page size",
            Self::Latency => "memory latency [clock cycles]",
            Self::ReadsInFlight => "reads in flight",
        }
    }

    fn y_name(self) -> &'static str {
        match self {
            Self::WorkingSet | Self::PageSize => "clock cycles per request",
            Self::Hops | Self::Latency | Self::ReadsInFlight => "clock cycles per miss",
        }
    }

    /// A number on the axis across.
    fn x_label(self, value: f64) -> String {
        match self {
            // The axis is linear and has marks between whole hops.
            Self::Hops if value.fract().abs() > 1e-6 => String::new(),
            Self::PageSize if value >= f64::from(1 << 20) => format!("{} GiB", label(value / f64::from(1 << 20))),
            Self::PageSize if value >= 1024.0 => format!("{} MiB", label(value / 1024.0)),
            Self::PageSize => format!("{} KiB", label(value)),
            _ => label(value),
        }
    }

    /// Where no line goes.
    fn legend_position(self) -> SeriesLabelPosition {
        match self {
            Self::WorkingSet | Self::Hops | Self::Latency => SeriesLabelPosition::UpperLeft,
            Self::PageSize | Self::ReadsInFlight => SeriesLabelPosition::UpperRight,
        }
    }
}

/// A point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The drawing.
    pub curve: Curve,
    /// The line in it.
    pub series: String,
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
}

const SIZE: (u32, u32) = (760, 440);
const COLORS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(255, 127, 14),
    RGBColor(23, 130, 140),
];

/// Draws every curve that has points into `directory`, which is made where it does not exist. Returns the files' names.
///
/// # Errors
/// [`BenchError::Chart`].
pub fn draw_all(points: &[Point], directory: &Path) -> Result<Vec<&'static str>, BenchError> {
    let failed = |error: std::io::Error| BenchError::Chart(format!("{}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(failed)?;
    let mut drawn = Vec::new();
    for curve in Curve::ALL {
        let points: Vec<&Point> = points.iter().filter(|point| point.curve == curve && point.y.is_finite()).collect();
        if points.is_empty() {
            continue;
        }
        let text = draw(curve, &points).map_err(BenchError::Chart)?;
        fs::write(directory.join(curve.file()), text).map_err(failed)?;
        drawn.push(curve.file());
    }
    Ok(drawn)
}

fn draw(curve: Curve, points: &[&Point]) -> Result<String, String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw_on(&area, curve, points).map_err(|error| format!("{}: {error}", curve.file()))?;
        area.present().map_err(|error| format!("{}: {error}", curve.file()))?;
    }
    Ok(text)
}

type Failure = Box<dyn std::error::Error>;

fn draw_on(area: &DrawingArea<SVGBackend<'_>, Shift>, curve: Curve, points: &[&Point]) -> Result<(), Failure> {
    area.fill(&WHITE)?;
    let range = |value: fn(&Point) -> f64| {
        let values = points.iter().map(|point| value(point));
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (x_low, x_high) = range(|point| point.x);
    let (y_low, y_high) = range(|point| point.y);
    // Room for the legend, up to a whole octave.
    let y = (0.8 * y_low)..(1.5 * y_high).log2().ceil().exp2();
    let mut builder = ChartBuilder::on(area);
    builder.margin(14).caption(curve.title(), ("sans-serif", 18)).x_label_area_size(42).y_label_area_size(58);
    if curve == Curve::Hops {
        let x = (x_low - 0.5)..(x_high + 0.5);
        let mut chart = builder.build_cartesian_2d(x, y.log_scale().base(2.0))?;
        finish(&mut chart, curve, points)
    } else {
        let x = (x_low * 0.9)..(x_high * 1.15);
        let mut chart = builder.build_cartesian_2d(x.log_scale().base(2.0), y.log_scale().base(2.0))?;
        finish(&mut chart, curve, points)
    }
}

type Chart<'a, 'b, X> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, LogCoord<f64>>>;

fn finish<'a, 'b: 'a, X>(chart: &mut Chart<'a, 'b, X>, curve: Curve, points: &[&Point]) -> Result<(), Failure>
where
    X: plotters::coord::ranged1d::Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc(curve.x_name())
        .y_desc(curve.y_name())
        .x_label_formatter(&|value| curve.x_label(*value))
        .y_label_formatter(&|value| label(*value))
        .x_labels(if curve == Curve::Hops { 7 } else { 16 })
        .y_labels(10)
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()?;
    let mut names: Vec<&str> = Vec::new();
    for point in points {
        if !names.contains(&point.series.as_str()) {
            names.push(&point.series);
        }
    }
    // A bound has the colour of what it bounds.
    let measured: Vec<&str> = names.iter().map(|name| name.strip_suffix(BOUND).unwrap_or(name)).collect();
    for (name, of) in names.iter().zip(&measured) {
        let first = measured.iter().position(|other| other == of).unwrap_or(0);
        let number =
            measured[..first].iter().enumerate().filter(|(at, other)| measured[..*at].iter().all(|o| o != *other));
        let color = COLORS[number.count() % COLORS.len()];
        let mut line: Vec<(f64, f64)> =
            points.iter().filter(|point| point.series == *name).map(|point| (point.x, point.y)).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        if name == of {
            let style = color.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.iter().copied(), style).point_size(3))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
        } else {
            chart
                .draw_series(DashedLineSeries::new(line.iter().copied(), 4, 4, color.stroke_width(1)))?
                .label(*name)
                .legend(move |(x, y)| {
                    let dash = |from: i32| PathElement::new([(from, 0), (from + 5, 0)], color.stroke_width(1));
                    EmptyElement::at((x, y)) + dash(0) + dash(9) + dash(18)
                });
        }
    }
    chart
        .configure_series_labels()
        .position(curve.legend_position())
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

/// Ending of the name of a line that shows a bound.
const BOUND: &str = ", bound";

/// A number on an axis.
fn label(value: f64) -> String {
    let value = (value * 100.0).round() / 100.0;
    if value >= 10.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
