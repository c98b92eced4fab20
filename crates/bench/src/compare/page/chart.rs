//! Line charts of a run's seconds, as SVG whose colours are those of the page it stands in.

use plotters::prelude::*;

use crate::error::BenchError;

/// Pixels of a chart: four of them stand beside each other on a wide page.
const SIZE: (u32, u32) = (440, 190);
const FONT: (&str, u32) = ("sans-serif", 11);
/// Colours that stand for those of the page until `dressed` has put their names in.
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
/// Colours there are for lines.
pub(super) const LINE_COLOURS: usize = 4;

/// One line: which of the page's colours it has, and its points.
pub(super) struct Line {
    pub(super) colour: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart of `lines` over seconds. Its y axis begins at 0.
pub(super) fn over_time(title: &str, lines: &[Line]) -> Result<String, BenchError> {
    let mut svg = String::new();
    draw(title, lines, &mut svg)
        .map_err(|error| BenchError::Chart { title: title.to_owned(), problem: error.to_string() })?;
    Ok(dressed(&svg))
}

fn draw(title: &str, lines: &[Line], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (last, highest) = points().fold((1.0_f64, 0.0_f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
    let highest = if highest > 0.0 { highest * 1.1 } else { 1.0 };
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let style = |colour: &RGBColor| FONT.into_font().color(colour);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, style(&INK))
        .margin_right(12)
        .x_label_area_size(22)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..last, 0.0..highest)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(style(&INK))
        .x_labels(6)
        .y_labels(5)
        .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    for line in lines {
        let colour = RGBColor(10, 0, line.colour as u8);
        chart.draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?;
    }
    root.present()?;
    Ok(())
}

/// The page's colours by name, so that one chart suits light, dark and paper.
fn dressed(svg: &str) -> String {
    let mut dressed = svg.replace("#010101", "var(--ink)").replace("#020202", "var(--grid)");
    for colour in 0..LINE_COLOURS {
        dressed = dressed.replace(&format!("#0A00{colour:02X}"), &format!("var(--line-{colour})"));
    }
    dressed
}

/// A number as people say it: 1.2 M, 35 k, 0.4.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 1e4 => format!("{:.0} k", value / 1e3),
        value if value >= 1e3 => format!("{:.1} k", value / 1e3),
        value if value >= 10.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_the_colours_of_its_page_alone() {
        let lines: Vec<_> =
            (0..LINE_COLOURS).map(|colour| Line { colour, points: vec![(0.0, 1.0), (5.0, 2.0)] }).collect();
        let svg = over_time("messages a second", &lines).expect("draws");
        assert!(svg.starts_with("<svg") && svg.contains("messages a second"));
        assert!((0..LINE_COLOURS).all(|colour| svg.contains(&format!("var(--line-{colour})"))));
        assert!(!svg.contains("\"#"), "{svg}");
    }

    #[test]
    fn numbers_are_short() {
        let said = [0.0, 0.25, 3.2, 42.0, 1_500.0, 35_400.0, 1_234_567.0].map(short);
        assert_eq!(said, ["0", "0.25", "3.2", "42", "1.5 k", "35 k", "1.23 M"]);
    }
}
