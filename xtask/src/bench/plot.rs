//! Curves as an SVG picture: what is given along a logarithmic scale, what comes of it upwards.

use super::chart::{escaped, number};
use std::fmt::Write;

pub struct Curve {
    pub name: String,
    /// In the order of their first figures, which are above zero.
    pub points: Vec<[f64; 2]>,
}

pub struct Plot<'a> {
    pub title: &'a str,
    /// What lies along, and what goes upwards.
    pub axes: [&'a str; 2],
    pub curves: Vec<Curve>,
}

const COLOURS: [&str; 7] = [
    "#1c2129", "#c46a2b", "#d99a3d", "#e6c36a", "#27507f", "#4f83b8", "#8fb8d9",
];
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 580.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 360.0;
/// Lines across.
const STEPS: u32 = 5;

impl Plot<'_> {
    /// Least and greatest of what lies along, and the greatest of what goes upwards.
    fn ends(&self) -> [f64; 3] {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let ends = points.fold([f64::MAX, 0.0, 0.0], |[least, most, high], [x, y]| {
            [x.min(least), x.max(most), y.max(high)]
        });
        match ends {
            [least, most, high] if least < most && high > 0.0 => ends,
            _ => [1.0, 10.0, 1.0],
        }
    }

    pub fn svg(&self) -> String {
        let [least, most, high] = self.ends();
        let x = |value: f64| LEFT + (RIGHT - LEFT) * (value / least).ln() / (most / least).ln();
        let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / high;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
             font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n\
             <title>{0}</title>\n<rect x=\"0.5\" y=\"0.5\" width=\"{1}\" height=\"{2}\" rx=\"8\" fill=\"#ffffff\" stroke=\"#8a8f98\"/>\n\
             <text x=\"16\" y=\"26\" font-weight=\"bold\" font-size=\"15\">{0}</text>\n\
             <text x=\"16\" y=\"46\" fill=\"#3d444f\">{3}</text>\n<text x=\"{RIGHT}\" y=\"{4}\" text-anchor=\"end\" fill=\"#3d444f\">{5}</text>\n",
            escaped(self.title), WIDTH - 1.0, HEIGHT - 1.0, escaped(self.axes[1]), HEIGHT - 16.0, escaped(self.axes[0])
        );
        for step in 0..=STEPS {
            let value = high * f64::from(step) / f64::from(STEPS);
            let at = y(value);
            let _ = writeln!(svg, "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#d8dbe0\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"11\">{}</text>", LEFT - 6.0, at + 4.0, number(value));
        }
        let mut marks: Vec<f64> = self
            .curves
            .iter()
            .flat_map(|c| &c.points)
            .map(|p| p[0])
            .collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        for value in marks {
            let at = x(value);
            let _ = writeln!(svg, "<line x1=\"{at:.1}\" y1=\"{BOTTOM}\" x2=\"{at:.1}\" y2=\"{}\" stroke=\"#8a8f98\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\">{}</text>", BOTTOM + 4.0, BOTTOM + 18.0, number(value));
        }
        for (place, (curve, colour)) in self.curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let points: Vec<String> = curve
                .points
                .iter()
                .map(|[a, b]| format!("{:.1},{:.1}", x(*a), y(*b)))
                .collect();
            let legend = TOP + 10.0 + 22.0 * place as f64;
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                points.join(" ")
            );
            let _ = writeln!(svg, "<line x1=\"{}\" y1=\"{legend}\" x2=\"{}\" y2=\"{legend}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>", RIGHT + 14.0, RIGHT + 34.0, RIGHT + 40.0, legend + 4.0, escaped(&curve.name));
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_lie_within_the_picture() {
        let curve = |points: &[[f64; 2]]| Curve {
            name: "a < b".to_string(),
            points: points.to_vec(),
        };
        let plot = |curves| Plot {
            title: "t",
            axes: ["x", "y"],
            curves,
        };
        let drawn = plot(vec![curve(&[[50.0, 50.0], [10_000.0, 700.0]])]);
        let svg = drawn.svg();
        assert_eq!(drawn.ends(), [50.0, 10_000.0, 700.0]);
        assert!(svg.contains("points=\"70.0,338.6 580.0,60.0\""), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"));
        // With nothing to draw there is a picture all the same.
        for curves in [vec![], vec![curve(&[[1.0, 0.0]])]] {
            assert!(!plot(curves).svg().contains("NaN"));
        }
    }
}
