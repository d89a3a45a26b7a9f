//! Commands in the book's pages: code is split as a shell splits it, and what begins with `./cairn` is read by the tool's own argument parser.

use super::page::Block;
use crate::cli::{Cli, Command, Exec, Machine, System, Trace};
use clap::error::ErrorKind;
use clap::Parser;
use std::ops::Range;

/// One program's part of a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Simple {
    pub words: Vec<String>,
    /// Where it stands in the text, without what follows it.
    pub place: Range<usize>,
    /// It reads what the one before it writes.
    pub piped: bool,
}

/// What a block of commands is for the test.
pub enum Use {
    /// It is not of commands.
    Other,
    /// `norun: REASON`
    NotRun,
    Run(Vec<Step>),
}

/// What the test does.
pub enum Step {
    /// The tool itself, with what boots no machine.
    Tool(Vec<String>),
    /// `./cairn exec`, with a command of the host whose output is its input, and the status with which it ends.
    Exec {
        input: Option<String>,
        command: Vec<String>,
        status: u8,
    },
    /// Lines that are typed in the guest, and end well.
    Guest(String),
}

pub const TOOL: &str = "./cairn";
/// How a line begins that is typed in the guest.
const PROMPTS: [&str; 2] = ["cairn:~# ", "cairn:~$ "];
/// Languages without commands.
const OTHERS: [&str; 7] = ["rust", "c", "toml", "text", "idl", "python", "gdb"];

/// Languages are the first word behind the fence; the test's marks follow: `sh norun: REASON`, `sh guest`, `sh status=3`.
pub fn use_of(block: &Block) -> Result<Use, String> {
    let Some(info) = &block.info else {
        return Err("a code block says what it is: ```sh, ```text, ```toml …".to_string());
    };
    let (language, marks) = info.split_once(' ').unwrap_or((info, ""));
    if OTHERS.contains(&language) && marks.is_empty() {
        return Ok(Use::Other);
    }
    if !["sh", "console"].contains(&language) {
        return Err(format!("{info:?}: no such kind of code block"));
    }
    if let Some(reason) = marks.strip_prefix("norun:") {
        return match reason.trim().is_empty() {
            true => Err("norun: without a reason".to_string()),
            false => Ok(Use::NotRun),
        };
    }
    if language == "console" || marks == "guest" {
        return Ok(Use::Run(vec![Step::Guest(typed(language, &block.text))]));
    }
    let status = match marks.strip_prefix("status=") {
        Some(number) => number
            .parse()
            .map_err(|_| format!("{marks:?}: no status"))?,
        None if marks.is_empty() => 0,
        None => {
            return Err(format!(
                "{marks:?}: norun: REASON, guest or status=N is wanted"
            ))
        }
    };
    Ok(Use::Run(steps(&block.text, status)?))
}

/// In a session the lines with a prompt.
fn typed(language: &str, text: &str) -> String {
    let unprompted = |line: &str| {
        PROMPTS
            .iter()
            .find_map(|p| line.strip_prefix(p))
            .map(str::to_string)
    };
    match language {
        "console" => text
            .lines()
            .filter_map(|l| unprompted(l).map(|l| l + "\n"))
            .collect(),
        _ => text.to_string(),
    }
}

/// What of a block can be run in one machine that others use, too; anything else is to be marked.
fn steps(text: &str, status: u8) -> Result<Vec<Step>, String> {
    let mark = |what: &str| {
        format!("{what} cannot be run by the test: mark the block with `norun: REASON`")
    };
    let mut steps = Vec::new();
    let mut input: Option<String> = None;
    for simple in split(text)? {
        let place = text[simple.place.clone()].trim();
        if simple.words.first().is_none_or(|word| word != TOOL) {
            if simple.piped && input.is_none() {
                return Err(mark(place));
            }
            input = Some(match input.filter(|_| simple.piped) {
                Some(before) => format!("{before} | {place}"),
                None => place.to_string(),
            });
            continue;
        }
        if input.is_some() && !simple.piped {
            return Err(mark(&input.unwrap_or_default()));
        }
        steps.push(match read(&simple.words)?.command {
            Command::Exec(exec) if is_plain(&exec) => Step::Exec {
                input: input.take(),
                command: exec
                    .command
                    .iter()
                    .map(|w| w.to_string_lossy().into_owned())
                    .collect(),
                status,
            },
            Command::Idl(_) => Step::Tool(simple.words),
            Command::Test(test) if test.list => Step::Tool(simple.words),
            _ => return Err(mark(place)),
        });
    }
    match input {
        Some(input) => Err(mark(&input)),
        None => Ok(steps),
    }
}

/// Does it ask for no more than any machine with a Debian root has?
fn is_plain(exec: &Exec) -> bool {
    let Machine {
        smp,
        mem,
        root: _,
        packages,
        root_as_made: _,
        system,
        lean,
        accel: _,
        append,
        add,
        shares,
        disks,
        snapshot: _,
        mounts,
        iommu,
        net,
        forward,
        pcap,
        with,
        // It needs `with`.
        only: _,
        verbose: _,
        executed: _,
    } = &exec.machine;
    let extras = [
        mem.is_some(),
        append.is_some(),
        iommu.is_some(),
        pcap.is_some(),
        with.is_some(),
        *lean,
        exec.icount,
    ];
    let lists = [
        packages.len(),
        add.len(),
        shares.len(),
        disks.len(),
        mounts.len(),
        net.len(),
        forward.len(),
        exec.tree.len(),
        exec.env.len(),
    ];
    *smp == 1
        && *system == System::Cairn
        && !extras.contains(&true)
        && lists.iter().all(|&n| n == 0)
        && exec.cwd == "/root"
}

/// The tool's own parser.
pub fn read(words: &[String]) -> Result<Cli, String> {
    let cli = Cli::try_parse_from(words).map_err(|error| told(words, &error))?;
    // An option that there is not would be the guest's command.
    if let Command::Exec(Exec { command, .. }) | Command::Trace(Trace { command, .. }) =
        &cli.command
    {
        if command
            .first()
            .is_some_and(|word| word.to_string_lossy().starts_with('-'))
        {
            return Err(format!("`{}`: no such option", words.join(" ")));
        }
    }
    Ok(cli)
}

fn told(words: &[String], error: &clap::Error) -> String {
    let said = error.to_string();
    format!(
        "`{}`: {}",
        words.join(" "),
        said.lines().next().unwrap_or_default()
    )
}

/// Is a line that begins with `./cairn` one that the tool takes? A sentence may only mention a command or an option, without what it needs.
pub fn is_taken(words: &[String], mention: bool) -> Result<(), String> {
    let Err(error) = Cli::try_parse_from(words) else {
        return read(words).map(|_| ());
    };
    let open = words.last().is_some_and(|word| word.starts_with("--"));
    match error.kind() {
        ErrorKind::DisplayHelp => Ok(()),
        ErrorKind::MissingRequiredArgument if mention => Ok(()),
        ErrorKind::InvalidValue if mention && open => Ok(()),
        _ => Err(told(words, &error)),
    }
}

/// What stands in a sentence: `[`, `]` and `…` are left out, and words in capitals are replaced by what may be there.
pub fn filled(code: &str) -> String {
    let code: String = code.chars().filter(|c| !"[]…".contains(*c)).collect();
    let fill = |word: &str| -> String {
        match word {
            "N" | "S" | "MS" => "1",
            "SIZE" => "64M",
            "KIND" => "none",
            "NAME" => "name",
            "COMMAND" => "run",
            "ROW" => "",
            word => word,
        }
        .to_string()
    };
    code.split(' ').map(fill).collect::<Vec<_>>().join(" ")
}

/// A text's simple commands, as a shell sees them: quotes, comments, pipes, lists, continued lines. Redirections are left out of the words.
pub fn split(text: &str) -> Result<Vec<Simple>, String> {
    let mut all = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let (mut begun, mut piped, mut redirected) = (0, false, false);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some((_, '\'')) => break,
                        Some((_, c)) => word.push(c),
                        None => return Err("a quote that does not end".to_string()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => word.extend(chars.next().map(|(_, c)| c)),
                        Some((_, c)) => word.push(c),
                        None => return Err("a quote that does not end".to_string()),
                    }
                }
            }
            '\\' => match chars.next() {
                Some((_, '\n')) | None => {}
                Some((_, c)) => word.get_or_insert_default().push(c),
            },
            '#' if word.is_none() => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '|' | ';' | '&' | '\n' | '>' | '<' | ' ' | '\t' => {
                let ended = word.take();
                let number = ended.as_ref().is_some_and(|w| w == "1" || w == "2");
                match ended {
                    Some(_) if redirected => redirected = false,
                    Some(_) if number && "><".contains(c) => {}
                    Some(ended) => words.push(ended),
                    None => {}
                }
                match c {
                    '>' | '<' => {
                        while chars.next_if(|(_, c)| "><&".contains(*c)).is_some() {}
                        redirected = true;
                    }
                    ' ' | '\t' => {}
                    _ => {
                        let doubled = chars.next_if(|(_, next)| *next == c && c != '\n').is_some();
                        if !words.is_empty() {
                            all.push(Simple {
                                words: std::mem::take(&mut words),
                                place: begun..at,
                                piped,
                            });
                        }
                        piped = c == '|' && !doubled;
                        begun = chars.peek().map_or(text.len(), |(at, _)| *at);
                        redirected = false;
                    }
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.filter(|_| !redirected));
    if !words.is_empty() {
        all.push(Simple {
            words,
            place: begun..text.len(),
            piped,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(info: &str, text: &str) -> Block {
        Block {
            line: 1,
            info: Some(info.to_string()),
            text: text.to_string(),
        }
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let text = "tar cf - 'a b' | ./cairn exec -- sh -c \"x \\\"y\\\"\" 2>/dev/null # why | not\n\\\n./cairn run && echo z";
        let all = split(text).unwrap();
        let words: Vec<Vec<&str>> = all
            .iter()
            .map(|s| s.words.iter().map(String::as_str).collect())
            .collect();
        let exec = vec!["./cairn", "exec", "--", "sh", "-c", "x \"y\""];
        assert_eq!(
            words,
            [
                vec!["tar", "cf", "-", "a b"],
                exec,
                vec!["./cairn", "run"],
                vec!["echo", "z"]
            ]
        );
        assert_eq!(
            all.iter().map(|s| s.piped).collect::<Vec<_>>(),
            [false, true, false, false]
        );
        assert_eq!(&text[all[0].place.clone()], "tar cf - 'a b' ");
        assert!(split("echo 'x").is_err());
    }

    #[test]
    fn blocks_are_run_or_say_why_not() {
        let runs = |info, text| matches!(use_of(&block(info, text)), Ok(Use::Run(steps)) if !steps.is_empty());
        assert!(runs("sh", "echo x | ./cairn exec -- cat\n"));
        assert!(runs("sh", "./cairn idl\n"));
        assert!(runs("sh status=3", "./cairn exec -- sh -c 'exit 3'\n"));
        for text in [
            "./cairn exec --no-such -- cat\n",
            "./cairn no-such\n",
            "./cairn run\n",
            "./cairn exec --smp 2 -- cat\n",
            "make x\n",
            "./cairn exec -- cat | wc\n",
        ] {
            assert!(use_of(&block("sh", text)).is_err(), "{text}");
        }
        assert!(matches!(
            use_of(&block("sh norun: it waits", "./cairn run\n")),
            Ok(Use::NotRun)
        ));
        assert!(use_of(&block("sh norun: ", "./cairn run\n")).is_err());
        assert!(use_of(&block("shh", "")).is_err());
        assert!(
            matches!(use_of(&block("console", "cairn:~# ps\noutput\n")), Ok(Use::Run(steps)) if matches!(&steps[..], [Step::Guest(text)] if text == "ps\n"))
        );
    }

    #[test]
    fn a_wrong_command_is_no_command() {
        let taken = |line: &str| is_taken(&split(&filled(line)).unwrap()[0].words, true);
        assert!(taken("./cairn run [--smp N] [--mem SIZE] [--root debian]").is_ok());
        assert!(taken("./cairn help exec").is_ok());
        assert!(taken("./cairn run --core 2").is_err_and(|why| why.contains("--core")));
        assert!(taken("./cairn runn").is_err());
        assert!(taken("./cairn exec --no-such -- cat").is_err());
        assert!(taken("./cairn exec").is_ok() && taken("./cairn run --net").is_ok());
        assert!(is_taken(&split("./cairn exec").unwrap()[0].words, false).is_err());
    }
}
