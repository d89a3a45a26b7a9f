//! Who may call whom, and what else each component has, as text and as a drawing. The lines are those of /proc/cairn/portals
//! (`cairn_manifest::Component::lines`). The same drawing shows who did call whom in a trace.

use std::collections::BTreeMap;

/// A component with what it has, in the order of its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    name: String,
    /// Whom it may call and how, or did.
    calls: Vec<(String, String)>,
    /// Prefixes that it serves.
    serves: Vec<String>,
    /// Devices and services.
    has: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    /// What an arrow says.
    legend: String,
}

/// What is not in the lines, because everybody has it.
const ALL: &str = "Every component may call vm for its own memory, and write to the log.";

impl Graph {
    /// Of who called whom, and what there is to say of it.
    pub fn of_calls(
        calls: impl IntoIterator<Item = (String, String, String)>,
        legend: &str,
    ) -> Graph {
        let mut nodes: Vec<Node> = Vec::new();
        for (from, to, how) in calls {
            let at = place(&mut nodes, &from);
            place(&mut nodes, &to);
            nodes[at].calls.push((to, how));
        }
        Graph {
            nodes,
            legend: legend.into(),
        }
    }

    /// Of lines of four words: name, kind, what, how.
    pub fn parse(text: &str) -> Graph {
        let mut nodes: Vec<Node> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [name, kind, what, how] = words[..] else {
                continue;
            };
            let at = match kind {
                "kind" => continue,
                _ => place(&mut nodes, name),
            };
            match kind {
                "calls" => {
                    place(&mut nodes, what);
                    nodes[at].calls.push((what.into(), how.into()));
                }
                "serves" => nodes[at].serves.push(what.into()),
                kind => nodes[at].has.push(format!("{kind} {what}")),
            }
        }
        Graph {
            nodes,
            legend: format!("An arrow: may call. Coloured: has devices or services. {ALL}"),
        }
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            text.push_str(&format!("{}\n", node.name));
            let calls = node.calls.iter().map(|(to, how)| match how.as_str() {
                "-" => to.clone(),
                how => format!("{to} ({how})"),
            });
            let lines = [
                ("calls", calls.collect::<Vec<_>>()),
                ("serves", node.serves.clone()),
                ("has", node.has.clone()),
            ];
            for (word, list) in lines.iter().filter(|(_, list)| !list.is_empty()) {
                text.push_str(&format!("  {word:<7} {}\n", list.join(", ")));
            }
        }
        text.push_str(&format!("{ALL}\n"));
        text
    }

    /// How high each stands: above all whom it calls. (In a circle somewhere.)
    fn levels(&self) -> Vec<usize> {
        let places: BTreeMap<&str, usize> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(at, n)| (n.name.as_str(), at))
            .collect();
        let mut levels = vec![0; self.nodes.len()];
        for _ in 0..self.nodes.len() {
            for (at, node) in self.nodes.iter().enumerate() {
                let below = node
                    .calls
                    .iter()
                    .filter_map(|(to, _)| places.get(to.as_str()));
                let least = below.map(|to| levels[*to] + 1).max().unwrap_or(0);
                levels[at] = least.clamp(levels[at], self.nodes.len());
            }
        }
        // Levels that nobody is on are left out.
        let mut used = levels.clone();
        used.sort_unstable();
        used.dedup();
        levels
            .iter()
            .map(|level| used.partition_point(|u| u < level))
            .collect()
    }

    pub fn svg(&self) -> String {
        const WIDTH: usize = 120;
        const HEIGHT: usize = 40;
        const APART: (usize, usize) = (24, 90);
        const EDGE: usize = 24;
        let levels = self.levels();
        let most = levels.iter().copied().max().unwrap_or(0);
        let rows: Vec<Vec<usize>> = (0..=most)
            .map(|level| {
                (0..self.nodes.len())
                    .filter(|at| levels[*at] == level)
                    .collect()
            })
            .collect();
        let widest = rows.iter().map(Vec::len).max().unwrap_or(0);
        let across = widest * (WIDTH + APART.0);
        // The middle of each box.
        let mut middles = vec![(0, 0); self.nodes.len()];
        for (level, row) in rows.iter().enumerate() {
            let step = across / row.len().max(1);
            for (number, at) in row.iter().enumerate() {
                let down = (most - level) * (HEIGHT + APART.1) + HEIGHT / 2;
                middles[*at] = (EDGE + step * number + step / 2, EDGE + down);
            }
        }
        let size = (across + 2 * EDGE, (most + 1) * (HEIGHT + APART.1) + EDGE);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0,0L8,4L0,8z\" fill=\"#667\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            size.0, size.1
        );
        for (from, node) in self.nodes.iter().enumerate() {
            for (to, how) in &node.calls {
                let Some(at) = self.nodes.iter().position(|n| n.name == *to) else {
                    continue;
                };
                let ((x1, y1), (x2, y2)) = (middles[from], middles[at]);
                let up = levels[from] <= levels[at];
                let (y1, y2) = match up {
                    true => (y1 - HEIGHT / 2, y2 + HEIGHT / 2),
                    false => (y1 + HEIGHT / 2, y2 - HEIGHT / 2),
                };
                svg.push_str(&format!(
                    "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#99a\" marker-end=\"url(#to)\"><title>{}</title></line>\n",
                    escaped(&format!("{} calls {to}: {how}", node.name))
                ));
            }
        }
        for (node, (x, y)) in self.nodes.iter().zip(&middles) {
            let serves = escaped(&node.serves.join(" "));
            let has = escaped(&node.has.join(", "));
            let fill = match node.has.is_empty() {
                true => "#eef3fb",
                false => "#fbf1e0",
            };
            svg.push_str(&format!(
                "<g><title>{has}</title><rect x=\"{}\" y=\"{}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"5\" fill=\"{fill}\" stroke=\"#446\"/>\
                 <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
                 <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"10\" fill=\"#557\">{serves}</text></g>\n",
                x - WIDTH / 2,
                y - HEIGHT / 2,
                y - 2,
                escaped(&node.name),
                y + 13,
            ));
        }
        svg.push_str(&format!(
            "<text x=\"{EDGE}\" y=\"{}\" font-size=\"11\" fill=\"#557\">{}</text>\n</svg>\n",
            size.1 - 8,
            escaped(&self.legend)
        ));
        svg
    }
}

/// The node of this name, made if there is none.
fn place(nodes: &mut Vec<Node>, name: &str) -> usize {
    match nodes.iter().position(|n| n.name == name) {
        Some(at) => at,
        None => {
            nodes.push(Node {
                name: name.into(),
                ..Node::default()
            });
            nodes.len() - 1
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name kind what how\nvm service memory -\nproc calls vm control\ntty calls proc groups,terminal\ntty calls uart0 -\n\
        tty serves tty: tty\nuart0 ports 0x3f8+8 ports\nbad line\na calls b -\nb calls a -\n";

    #[test]
    fn the_text_has_what_each_may() {
        let text = Graph::parse(TEXT).text();
        assert!(text.starts_with("vm\n  has     service memory\nproc\n  calls   vm (control)\n"));
        assert!(text.contains("tty\n  calls   proc (groups,terminal), uart0\n  serves  tty:\n"));
        assert!(!text.contains("bad") && !text.contains("kind"));
    }

    #[test]
    fn who_calls_stands_above_whom_it_calls() {
        let graph = Graph::parse(TEXT);
        let levels = graph.levels();
        let of = |name: &str| levels[graph.nodes.iter().position(|n| n.name == name).unwrap()];
        assert!(of("tty") > of("proc") && of("proc") > of("vm"));
        assert_eq!(of("uart0"), 0);
        let svg = graph.svg();
        assert_eq!(svg.matches("<line").count(), 5);
        assert_eq!(svg.matches("<rect").count(), 7);
        assert_eq!(escaped("<a&\">"), "&lt;a&amp;&quot;&gt;");
        assert!(Graph::default().svg().ends_with("</svg>\n"));
        let call = |from: &str, to: &str| (from.to_string(), to.to_string(), "3 calls".to_string());
        let calls = [call("sh", "tmpfs"), call("sh", "proc"), call("tmpfs", "vm")];
        let svg = Graph::of_calls(calls, "An arrow: <called>.").svg();
        assert_eq!(
            (svg.matches("<line").count(), svg.matches("<rect").count()),
            (3, 5)
        );
        assert!(svg.contains("sh calls tmpfs: 3 calls") && svg.contains("&lt;called&gt;"));
    }
}
