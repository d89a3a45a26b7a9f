//! Bars of ratios as an SVG picture, on a logarithmic scale: what is better than 1 goes right of the line, what is worse left of it. Nothing else is drawn
//! here, so there is no crate for it.

use std::fmt::Write;

pub struct Bar {
    pub label: String,
    /// For each of the chart's series.
    pub values: Vec<Option<f64>>,
}

pub struct Chart<'a> {
    pub title: &'a str,
    /// What 1 stands for.
    pub scale: &'a str,
    pub series: [&'a str; 2],
    pub bars: Vec<Bar>,
}

const COLOURS: [&str; 2] = ["#9aa3b0", "#3b5f92"];
const WIDTH: f64 = 760.0;
/// Labels end here, and the scale begins. The widest usual font takes 8 units for a character of 13.
const LEFT: f64 = 290.0;
/// Room for a figure behind the longest bar.
const RIGHT: f64 = WIDTH - 70.0;
const TOP: f64 = 84.0;
const BAR: f64 = 13.0;
const ROW: f64 = 2.0 * BAR + 12.0;

impl Chart<'_> {
    pub fn svg(&self) -> String {
        let [least, most] = self.ends();
        let x = |value: f64| {
            let part = (value.log2() - least) / (most - least);
            LEFT + (RIGHT - LEFT) * part
        };
        let bottom = TOP + ROW * self.bars.len() as f64;
        let height = bottom + 40.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n\
             <title>{0}</title>\n<rect x=\"0.5\" y=\"0.5\" width=\"{1}\" height=\"{2}\" rx=\"8\" fill=\"#ffffff\" stroke=\"#8a8f98\"/>\n<text x=\"16\" y=\"26\" font-weight=\"bold\" font-size=\"15\">{0}</text>\n<text x=\"16\" y=\"{3}\" fill=\"#3d444f\">{4}</text>\n",
            escaped(self.title), WIDTH - 1.0, height - 1.0, height - 10.0, escaped(self.scale)
        );
        let mut at = 16.0;
        for (name, colour) in self.series.iter().zip(COLOURS) {
            let _ = writeln!(svg, "<rect x=\"{at}\" y=\"40\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"51\">{}</text>", at + 18.0, escaped(name));
            at += 40.0 + 8.0 * name.chars().count() as f64;
        }
        let mut power = least;
        while power <= most {
            let line = x(power.exp2());
            let colour = if power == 0.0 { "#1c2129" } else { "#d8dbe0" };
            let _ = writeln!(svg, "<line x1=\"{line:.1}\" y1=\"{}\" x2=\"{line:.1}\" y2=\"{bottom}\" stroke=\"{colour}\"/><text x=\"{line:.1}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\" fill=\"#3d444f\">{}</text>", TOP - 6.0, TOP - 10.0, number(power.exp2()));
            power += if most - least > 6.0 { 2.0 } else { 1.0 };
        }
        for (row, bar) in self.bars.iter().enumerate() {
            let top = TOP + ROW * row as f64 + 6.0;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                LEFT - 14.0,
                top + BAR + 4.0,
                escaped(&bar.label)
            );
            for (series, value) in bar.values.iter().enumerate() {
                let Some(value) = value.filter(|value| *value > 0.0) else {
                    continue;
                };
                let (from, to) = (x(1.0).min(x(value)), x(1.0).max(x(value)));
                let y = top + BAR * series as f64;
                let _ = writeln!(svg, "<rect x=\"{from:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{}\" font-size=\"11\">{}</text>", (to - from).max(1.0), BAR - 1.0, COLOURS[series], to + 5.0, y + BAR - 3.0, number(value));
            }
        }
        svg + "</svg>\n"
    }

    /// Powers of two that hold all bars, and 1.
    fn ends(&self) -> [f64; 2] {
        let values = self.bars.iter().flat_map(|bar| bar.values.iter().flatten());
        let [least, most] =
            values
                .filter(|v| **v > 0.0)
                .fold([0.0f64, 1.0], |[least, most], value| {
                    [
                        least.min(value.log2().floor()),
                        most.max(value.log2().ceil()),
                    ]
                });
        // Lines at every second power still meet 1.
        let even = |power: f64| {
            if most - least > 6.0 {
                (power / 2.0).floor() * 2.0
            } else {
                power
            }
        };
        [even(least), most]
    }
}

/// With as many digits as say something.
pub fn number(value: f64) -> String {
    let decimals = match value {
        v if v >= 99.5 => return format!("{v:.0}"),
        v if v >= 9.95 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_within_the_picture() {
        let bar = |label: &str, paper, ours| Bar {
            label: label.to_string(),
            values: vec![paper, ours],
        };
        let chart = Chart {
            title: "a < b",
            scale: "1: the same",
            series: ["paper", "Cairn"],
            bars: vec![
                bar("less", Some(0.46), Some(3.06)),
                bar("more", None, Some(116.0)),
            ],
        };
        let svg = chart.svg();
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"));
        // Three bars and the legend's two squares beside the frame.
        assert_eq!(svg.matches("<rect").count(), 6);
        assert_eq!(chart.ends(), [-2.0, 7.0]);
        for part in svg.split(" x=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..WIDTH - 25.0).contains(&x), "{x}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.457, 1.0, 1.5, 13.94, 116.01].map(number),
            ["0.46", "1", "1.5", "13.9", "116"]
        );
    }
}
