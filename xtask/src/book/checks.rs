//! What the pages of the book keep to: each is in a chapter, links lead somewhere, commands are commands, sentences are short.

use super::commands::{self, TOOL};
use super::page::{words, Found, Page};
use super::{beside, order, pages, parts, ORDER};
use crate::{bench, cli, places};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Words in a sentence, on average over a page.
const AVERAGE: f64 = 20.0;
/// Pages whose commands and links are looked at, though no chapters.
const BESIDE: [&str; 4] = ["README.md", "SECURITY.md", "CHANGELOG.md", "docs/README.md"];

/// All that is wrong, a line each: where, and what.
pub fn faults() -> Result<Vec<String>> {
    let texts = with_those_beside()?;
    let parsed: BTreeMap<&Path, Page> = texts
        .iter()
        .map(|(path, text)| (path.as_path(), Page::parse(text)))
        .collect();
    let mut faults = Vec::new();
    let named: BTreeSet<PathBuf> = order(&texts)?.into_iter().map(|(path, _)| path).collect();
    for (path, page) in &parsed {
        let is_page = path.starts_with("docs") && *path != Path::new(ORDER);
        if is_page && !named.contains(*path) {
            faults.push(format!("{}: in no chapter of {ORDER}", path.display()));
        }
        dead_links(path, page, &parsed, &mut faults);
        wrong_commands(path, page, &mut faults);
        long_sentences(path, page, &mut faults);
    }
    Ok(faults)
}

pub fn with_those_beside() -> Result<BTreeMap<PathBuf, String>> {
    let mut texts = pages()?;
    for path in BESIDE.map(PathBuf::from) {
        let text = super::text(&path)?;
        texts.insert(path, text);
    }
    Ok(texts)
}

fn at(path: &Path, found: &Found, what: &str) -> String {
    format!("{}:{}: {what}", path.display(), found.line)
}

fn dead_links(path: &Path, page: &Page, pages: &BTreeMap<&Path, Page>, faults: &mut Vec<String>) {
    for link in &page.links {
        let (file, anchor) = parts(&link.text);
        if file.contains("://") || file.starts_with("mailto:") {
            continue;
        }
        let target = match file {
            "" => path.to_path_buf(),
            file => beside(path, file),
        };
        match (pages.get(target.as_path()), anchor.strip_prefix('#')) {
            (Some(page), Some(anchor)) if !page.anchors.contains(anchor) => {
                faults.push(at(
                    path,
                    link,
                    &format!("{} has no heading {anchor:?}", target.display()),
                ));
            }
            (None, _) if !places::root().join(&target).exists() => {
                faults.push(at(path, link, &format!("{} is not there", link.text)));
            }
            _ => {}
        }
    }
}

fn wrong_commands(path: &Path, page: &Page, faults: &mut Vec<String>) {
    for block in &page.blocks {
        let found = Found {
            line: block.line,
            text: block.text.clone(),
        };
        let commands = [Some("sh"), Some("console")]
            .contains(&block.info.as_deref().and_then(|i| i.split(' ').next()));
        let fault = commands::use_of(block).err().or_else(|| {
            commands
                .then(|| wrong_command(&block.text, false))
                .flatten()
        });
        faults.extend(fault.map(|why| at(path, &found, &why)));
    }
    for code in &page.code {
        if code.text.starts_with(TOOL) || code.text.contains(&format!(" {TOOL} ")) {
            let fault = wrong_command(&commands::filled(&code.text), true);
            faults.extend(fault.map(|why| at(path, code, &why)));
        }
    }
}

/// What is wrong with one of the tool's commands in this text.
fn wrong_command(text: &str, mention: bool) -> Option<String> {
    let all = match commands::split(text) {
        Ok(all) => all,
        Err(why) => return Some(why),
    };
    all.iter()
        .filter(|simple| {
            simple.words.first().is_some_and(|word| word == TOOL) && simple.words.len() > 1
        })
        .find_map(|simple| {
            let words = &simple.words;
            commands::is_taken(words, mention).err().or_else(|| {
                match commands::read(words).ok()?.command {
                    cli::Command::Bench(arguments) => {
                        bench::nothing_begins_so(&arguments.operations)
                    }
                    _ => None,
                }
            })
        })
}

fn long_sentences(path: &Path, page: &Page, faults: &mut Vec<String>) {
    for (what, all) in [
        ("sentences", &page.sentences),
        ("cells of tables", &page.cells),
    ] {
        let count: usize = all.iter().map(|s| words(&s.text)).sum();
        let average = count as f64 / all.len().max(1) as f64;
        if average > AVERAGE {
            faults.push(format!(
                "{}: {what} have {average:.1} words on average",
                path.display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_no_faults() {
        let faults = faults().unwrap();
        assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    }

    /// Functions that a header of the C side declares or defines.
    fn declared(header: &str) -> BTreeSet<&str> {
        let lines = header.lines();
        lines
            .filter(|line| !line.starts_with(['/', ' ']) && !line.starts_with("typedef "))
            .filter_map(|line| {
                let (before, _) = line.split_once('(')?;
                let name = before.rsplit([' ', '*']).next()?;
                (before.len() > name.len() && name.starts_with(|c: char| c.is_ascii_lowercase()))
                    .then_some(name)
            })
            .collect()
    }

    #[test]
    fn the_reference_has_every_function_of_the_headers() {
        let page = super::super::text(Path::new("docs/guide/reference.md")).unwrap();
        let mut seen = 0;
        for header in ["runtime", "gate", "device", "window", "pages"] {
            let path = format!("sdk/include/cairn/{header}.h");
            for name in declared(&super::super::text(Path::new(&path)).unwrap()) {
                let there = page.contains(&format!("`{name}`"));
                assert!(there, "{name} of {path} is not in docs/guide/reference.md");
                seen += 1;
            }
        }
        assert!(seen > 40, "{seen} functions");
        let found = declared(
            "int64_t a_b(void);\nvoid *c_d(int);\ntypedef int e(f);\n#define E(f)\n    g(h);\n",
        );
        assert_eq!(found, BTreeSet::from(["a_b", "c_d"]));
    }

    #[test]
    fn the_picture_beside_linux_has_the_figures_of_measuring() {
        let read = |path: &str| super::super::text(Path::new(path)).unwrap();
        let (page, picture) = (
            read("docs/guide/measuring.md"),
            read("docs/images/beside-linux.svg"),
        );
        let mut seen = 0;
        for line in picture.lines().filter(|line| line.contains("<rect x=")) {
            // The row, its ratio, both figures.
            let texts: Vec<&str> = line
                .split("</text>")
                .filter_map(|t| t.rsplit('>').next())
                .collect();
            let [row, ratio, figures, ..] = texts[..] else {
                panic!("{line}");
            };
            let (cairn, linux) = figures.split_once(", ").unwrap();
            let wanted = format!("| {row} | {cairn} | {linux} | {ratio} |");
            assert!(page.contains(&wanted), "{wanted}");
            seen += 1;
        }
        assert!(seen > 20, "{seen} rows");
    }

    #[test]
    fn the_reference_has_every_error_of_the_nucleus() {
        let page = super::super::text(Path::new("docs/guide/reference.md")).unwrap();
        let errors = (1..=u8::MAX).map_while(cairn_abi::Error::from_code);
        let mut seen = 0;
        for (code, error) in (1..).zip(errors) {
            let mut name = String::new();
            for letter in format!("{error:?}").chars() {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.push(letter.to_ascii_uppercase());
            }
            let row = format!("| -{} | {code} | `{name}` |", 4096 + code);
            assert!(page.contains(&row), "{row}");
            seen += 1;
        }
        assert!(seen >= 17, "{seen} errors");
    }

    fn of(text: &str) -> Vec<String> {
        let page = Page::parse(text);
        let pages = BTreeMap::from([(Path::new("docs/a.md"), Page::parse(text))]);
        let mut faults = Vec::new();
        dead_links(Path::new("docs/a.md"), &page, &pages, &mut faults);
        wrong_commands(Path::new("docs/a.md"), &page, &mut faults);
        long_sentences(Path::new("docs/a.md"), &page, &mut faults);
        faults
    }

    #[test]
    fn faults_are_found() {
        assert_eq!(of("# A\n[a](#a) [r](README.md) `./cairn bench getppid`\n\n```sh\n./cairn exec -- true\n```\n"), [""; 0]);
        for (text, what) in [
            ("[a](b.md)", "not there"),
            ("[a](a.md#b)", "no heading"),
            ("`./cairn tset`", "tset"),
            ("`./cairn bench no-such-row`", "no-such-row"),
            ("    ./cairn run", "says what it is"),
            ("```sh norun: why\n./cairn run --smq 2\n```", "--smq"),
            ("a b c d e f g h i j k l m n o p q r s t u.", "21.0 words"),
        ] {
            let faults = of(text);
            assert!(
                faults.len() == 1 && faults[0].contains(what),
                "{text}: {faults:?}"
            );
        }
    }
}
