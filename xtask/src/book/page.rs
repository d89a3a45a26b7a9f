//! A page of the book as its checks see it: headings' anchors, links, code, sentences.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{HashMap, HashSet};

/// What in a page leads elsewhere, or is code.
pub struct Found {
    /// From 1 on.
    pub line: usize,
    pub text: String,
}

pub struct Block {
    pub line: usize,
    /// What stands behind the opening fence; none if the block is only indented.
    pub info: Option<String>,
    pub text: String,
}

#[derive(Default)]
pub struct Page {
    pub anchors: HashSet<String>,
    /// Targets of links and images.
    pub links: Vec<Found>,
    pub blocks: Vec<Block>,
    /// Code within lines.
    pub code: Vec<Found>,
    /// Outside of tables: code counts as one word, headings are none.
    pub sentences: Vec<Found>,
    /// The same of the cells of tables.
    pub cells: Vec<Found>,
}

pub fn options() -> Options {
    Options::ENABLE_TABLES
}

/// A word in place of code within a sentence.
const CODE: &str = "code";

impl Page {
    pub fn parse(text: &str) -> Page {
        let mut reader = Reader {
            text,
            page: Page::default(),
            said: String::new(),
            begun: 0,
            heading: None,
            cell: false,
            block: None,
            slugs: HashMap::new(),
        };
        for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
            reader.event(event, range.start);
        }
        reader.page
    }
}

struct Reader<'a> {
    text: &'a str,
    page: Page,
    /// What a paragraph, an item or a cell has said so far, and where it began.
    said: String,
    begun: usize,
    heading: Option<String>,
    cell: bool,
    block: Option<Block>,
    slugs: HashMap<String, usize>,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    fn event(&mut self, event: Event, at: usize) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let line = self.line(at);
                let text = dest_url.to_string();
                self.page.links.push(Found { line, text });
            }
            Event::Start(Tag::Heading { .. }) => {
                self.flush();
                self.heading = Some(String::new());
            }
            Event::End(TagEnd::Heading(_)) => {
                let heading = self.heading.take().unwrap_or_default();
                let slug = slug(&heading);
                let times = self.slugs.entry(slug.clone()).or_default();
                let anchor = match *times {
                    0 => slug,
                    n => format!("{slug}-{n}"),
                };
                *times += 1;
                self.page.anchors.insert(anchor);
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                self.flush();
                let info = match kind {
                    CodeBlockKind::Fenced(info) => Some(info.to_string()),
                    CodeBlockKind::Indented => None,
                };
                let (line, text) = (self.line(at), String::new());
                self.block = Some(Block { line, info, text });
            }
            Event::End(TagEnd::CodeBlock) => self.page.blocks.extend(self.block.take()),
            Event::Start(Tag::TableCell) => {
                self.flush();
                self.cell = true;
            }
            Event::End(TagEnd::TableCell) => {
                self.flush();
                self.cell = false;
            }
            Event::Start(Tag::Paragraph | Tag::Item | Tag::List(_))
            | Event::End(TagEnd::Paragraph | TagEnd::Item) => self.flush(),
            Event::Text(text) => match &mut self.block {
                Some(block) => block.text.push_str(&text),
                None => self.say(&text, at),
            },
            Event::Code(text) => {
                let line = self.line(at);
                if let Some(heading) = &mut self.heading {
                    heading.push_str(&text);
                } else {
                    self.say(CODE, at);
                }
                let text = text.to_string();
                self.page.code.push(Found { line, text });
            }
            Event::SoftBreak | Event::HardBreak => self.say(" ", at),
            _ => {}
        }
    }

    fn say(&mut self, text: &str, at: usize) {
        match &mut self.heading {
            Some(heading) => heading.push_str(text),
            None => {
                if self.said.is_empty() {
                    self.begun = at;
                }
                self.said.push_str(text);
            }
        }
    }

    /// A paragraph, an item or a cell is at its end, and so is its last sentence.
    fn flush(&mut self) {
        let said = std::mem::take(&mut self.said);
        let line = self.line(self.begun);
        let into = match self.cell {
            true => &mut self.page.cells,
            false => &mut self.page.sentences,
        };
        into.extend(sentences(&said).map(|text| Found {
            line,
            text: text.to_string(),
        }));
    }
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c => c.is_alphanumeric().then_some(c),
    };
    heading
        .to_lowercase()
        .trim()
        .chars()
        .filter_map(kept)
        .collect()
}

/// A full stop, a question mark or an exclamation mark ends a sentence where a space follows.
fn sentences(said: &str) -> impl Iterator<Item = &str> {
    said.split_inclusive(['.', '?', '!'])
        .scan((0, 0), move |(begun, at), piece| {
            *at += piece.len();
            let ends = said[*at..].chars().next().is_none_or(char::is_whitespace);
            let abbreviated = ["e.g.", "i.e."].iter().any(|a| said[..*at].ends_with(a));
            let sentence = match ends && !abbreviated || *at == said.len() {
                true => &said[std::mem::replace(begun, *at)..*at],
                false => "",
            };
            Some(sentence)
        })
        .filter(|sentence| words(sentence) > 0)
}

pub fn words(sentence: &str) -> usize {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    sentence.split_whitespace().filter(is_word).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let page = Page::parse(
            "# A `b` c\nOne two. Three, version 1.5 and `code. more`\ngoes on\n\n## A b c\n- [item](x.md#y)\n\n| a | b c d. e |\n| --- | --- |\n\n\
             ```sh norun: why\n./cairn run\n```\n\n    plain\n",
        );
        assert!(page.anchors.contains("a-b-c") && page.anchors.contains("a-b-c-1"));
        let said: Vec<_> = page.sentences.iter().map(|s| words(&s.text)).collect();
        assert_eq!(said, [2, 7, 1]);
        let cells: Vec<_> = page.cells.iter().map(|s| words(&s.text)).collect();
        assert_eq!(cells, [1, 3, 1]);
        assert_eq!(page.links[0].text, "x.md#y");
        assert_eq!((page.links[0].line, page.blocks[0].line), (6, 11));
        assert_eq!(page.blocks[0].info.as_deref(), Some("sh norun: why"));
        assert_eq!(page.blocks[1].info, None);
    }
}
