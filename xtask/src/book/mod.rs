//! `./cairn docs`: the book, made of docs/ by mdBook in the order of docs/SUMMARY.md; and what its pages must keep to, as tests ([`checks`]).
//!
//! mdBook is what Rust's own books are made with: one program, a page for each Markdown file as it is, search without a server. It is no package of
//! Debian's before 13, so cargo installs it below build/.
//!
//! What mdBook reads is a copy below build/book/src: links that leave the book lead into the tree there, marks for the tests are left out, and pages that the
//! tool itself
//! can write (its help, the interfaces) are added.

mod checks;
pub mod commands;
pub mod page;

use crate::{build, cli, interfaces, places, progress};
use anyhow::{bail, Context, Result};
use clap::CommandFactory;
use page::Page;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

/// Which one: the version is part of the place, so another one is installed beside it.
const MDBOOK: &str = "0.5.4";
const ORDER: &str = "docs/SUMMARY.md";
/// Pages that the tool writes, at the end of this part of the order.
const REFERENCE: &str = "# Reference\n";

pub fn command(arguments: &cli::Docs) -> Result<u8> {
    let faults = checks::faults()?;
    for fault in &faults {
        eprintln!("{fault}");
    }
    let place = places::build().join("book");
    let _ = fs::remove_dir_all(&place);
    stage(&place)?;
    let mut mdbook = Command::new(installed()?);
    progress::run("mdbook", mdbook.arg("build").arg(&place))?;
    let index = place.join("html/index.html");
    println!("{}", index.display());
    if arguments.open {
        let opened = Command::new("xdg-open")
            .arg(&index)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if let Err(error) = opened {
            bail!(
                "no browser could be opened (xdg-open: {error}); open the file that is named above"
            );
        }
    }
    Ok(u8::from(!faults.is_empty()))
}

/// The program, installed if it is not there.
fn installed() -> Result<PathBuf> {
    let folder = places::build().join(format!("tools/mdbook-{MDBOOK}"));
    let program = folder.join("bin/mdbook");
    if !program.exists() {
        let mut cargo = build::cargo();
        // Quickly built, and quick enough; without its server and what watches files.
        cargo
            .args(["install", "--quiet", "--locked", "--debug", "--no-track"])
            .args(["--no-default-features", "--features", "search"])
            .args(["--version", MDBOOK, "mdbook", "--root"])
            .arg(&folder)
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        progress::run(
            "installing mdBook with cargo (once, two minutes)",
            &mut cargo,
        )?;
        fs::remove_dir_all(folder.join("target"))?;
    }
    Ok(program)
}

/// All pages of the book, by their place in the project: what docs/ has, and what the order names outside of it.
pub fn pages() -> Result<BTreeMap<PathBuf, String>> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let there = places::root().join(&folder);
        for entry in fs::read_dir(&there).with_context(|| there.display().to_string())? {
            let path = folder.join(entry?.file_name());
            if places::root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                let text = text(&path)?;
                pages.insert(path, text);
            }
        }
    }
    for (target, _) in order(&pages)? {
        if let Entry::Vacant(place) = pages.entry(target) {
            let text = text(place.key())?;
            place.insert(text);
        }
    }
    Ok(pages)
}

/// A code block that the test runs.
pub struct Block {
    pub name: String,
    /// Page and line.
    pub place: String,
    pub steps: Vec<commands::Step>,
}

/// All of them; what cannot be understood is a fault that [`checks`] tells.
pub fn runs() -> Result<Vec<Block>> {
    let mut all = Vec::new();
    for (path, text) in checks::with_those_beside()? {
        let page = in_book(&path).with_extension("");
        let mut number = 0;
        for block in Page::parse(&text).blocks {
            if let Ok(commands::Use::Run(steps)) = commands::use_of(&block) {
                number += 1;
                all.push(Block {
                    name: format!("book/{}-{number}", page.display()),
                    place: format!("{}:{}", path.display(), block.line),
                    steps,
                });
            }
        }
    }
    Ok(all)
}

pub fn text(path: &Path) -> Result<String> {
    let path = places::root().join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The pages that the order names, with their lines.
fn order(pages: &BTreeMap<PathBuf, String>) -> Result<Vec<(PathBuf, usize)>> {
    let summary = pages
        .get(Path::new(ORDER))
        .with_context(|| format!("there is no {ORDER}"))?;
    let links = Page::parse(summary).links;
    Ok(links
        .into_iter()
        .map(|link| (beside(Path::new(ORDER), &link.text), link.line))
        .collect())
}

/// What a link in a page leads to, as a place in the project.
fn beside(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Where a page of the project is in the book. A folder's page is what a browser looks for there.
fn in_book(page: &Path) -> PathBuf {
    let page = page.strip_prefix("docs").unwrap_or(page);
    match page.ends_with("README.md") {
        true => page.with_file_name("index.md"),
        false => page.to_path_buf(),
    }
}

fn stage(place: &Path) -> Result<()> {
    let source = place.join("src");
    let pages = pages()?;
    let write = |path: &Path, text: &[u8]| -> Result<()> {
        let path = source.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&source))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for (path, text) in &pages {
        let mut text = translated(path, text, &pages, &source)?;
        if path == Path::new(ORDER) {
            text = with_written_pages(&text);
        }
        write(&in_book(path), text.as_bytes())?;
    }
    write(Path::new("reference/tool.md"), tool_page().as_bytes())?;
    write(
        Path::new("reference/interfaces.md"),
        interfaces::page()?.as_bytes(),
    )?;
    let images = places::root().join("docs/images");
    for entry in fs::read_dir(&images)? {
        let entry = entry?;
        write(
            &Path::new("images").join(entry.file_name()),
            &fs::read(entry.path())?,
        )?;
    }
    fs::copy(
        places::root().join("docs/book.toml"),
        place.join("book.toml"),
    )
    .context("docs/book.toml")?;
    Ok(())
}

/// Links that leave the book lead into the tree; fences keep the language only.
fn translated(
    path: &Path,
    text: &str,
    pages: &BTreeMap<PathBuf, String>,
    source: &Path,
) -> Result<String> {
    let mut text: String = text
        .lines()
        .map(|line| match line.split_once(' ') {
            Some((fence, _)) if fence.starts_with("```") => format!("{fence}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    for link in Page::parse(&text).links {
        let (file, anchor) = parts(&link.text);
        if file.is_empty() || file.contains("://") {
            continue;
        }
        let target = match beside(path, file) {
            // The order is no page: its browser's form stands beside every page.
            order if order == Path::new(ORDER) => PathBuf::from("docs/README.md"),
            target => target,
        };
        let from = source.join(in_book(path));
        let to = if pages.contains_key(&target) || target.starts_with("docs/images") {
            relative(&from, &source.join(in_book(&target)))
        } else {
            // From the page's place below html/, which is as deep as src/.
            relative(&from, &places::root().canonicalize()?.join(&target))
        };
        let to = to.display().to_string() + anchor;
        text = text.replace(&format!("]({})", link.text), &format!("]({to})"));
    }
    Ok(text)
}

/// A link's file and its anchor, with the `#`.
fn parts(link: &str) -> (&str, &str) {
    link.find('#').map_or((link, ""), |at| link.split_at(at))
}

/// How one gets from a file to another one.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let from: Vec<_> = from.parent().unwrap_or(from).components().collect();
    let to: Vec<_> = to.components().collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[common..].iter().map(|_| Component::ParentDir);
    up.chain(to[common..].iter().copied()).collect()
}

fn with_written_pages(order: &str) -> String {
    let written = "- [The tool](reference/tool.md)\n- [Interfaces](reference/interfaces.md)\n";
    order.replace(REFERENCE, &format!("{REFERENCE}\n{written}"))
}

/// What `./cairn help` says, of each command.
fn tool_page() -> String {
    let mut page = "# The tool\nWhat `./cairn help` and `./cairn help COMMAND` say.\n".to_string();
    let mut tool = cli::Cli::command();
    page += &format!("\n```text\n{}\n```\n", tool.render_long_help());
    for command in tool.get_subcommands_mut() {
        let name = command.get_name().to_string();
        page += &format!(
            "\n## {name}\n```text\n{}\n```\n",
            command.render_long_help()
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_they_led() {
        assert_eq!(
            beside(Path::new("docs/guide/a.md"), "../b.md"),
            Path::new("docs/b.md")
        );
        assert_eq!(
            relative(Path::new("/x/src/guide/a.md"), Path::new("/x/y")),
            Path::new("../../y")
        );
        assert_eq!(parts("a.md#b"), ("a.md", "#b"));
        let pages =
            ["docs/b.md", "docs/README.md"].map(|page| (PathBuf::from(page), String::new()));
        let pages = BTreeMap::from(pages);
        let source = places::root()
            .canonicalize()
            .unwrap()
            .join("build/book/src");
        let text =
            "[b](../b.md#c) [k](../../kernel/src) [w](https://x.y/) [r](../README.md)\n```sh norun: why\n```\n";
        let expected = "[b](../b.md#c) [k](../../../../kernel/src) [w](https://x.y/) [r](../index.md)\n```sh\n```\n";
        assert_eq!(
            translated(Path::new("docs/guide/a.md"), text, &pages, &source).unwrap(),
            expected
        );
    }
}
