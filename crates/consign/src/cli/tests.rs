//! What is refused in which words, and that texts name commands that exist.

use super::*;
use crate::REGISTRY;

fn refusal(arguments: &[&str]) -> String {
    let arguments = ["consign"].iter().chain(arguments);
    let arguments = arguments.map(std::ffi::OsString::from);
    plainer(
        &CommandLine::from_arguments(&REGISTRY, arguments)
            .unwrap_err()
            .to_string(),
    )
}

#[test]
fn a_number_that_is_none_is_refused_in_plain_words() {
    for (limit, why) in [
        ("x", "expected a whole number"),
        ("", "expected a whole number"),
        ("0", "0 is not in 1..=1000"),
        ("-1", "-1 is not in 1..=1000"),
        ("99999999999999999999999", "the number is too large"),
    ] {
        let told = refusal(&["ls", "--limit", limit]);
        assert!(told.contains(why), "{limit:?}: {told}");
    }
    let told = refusal(&["enqueue", "1", "--delay", "-5s"]);
    assert!(told.contains("a duration is written like"), "{told}");
    let told = refusal(&["explain", "99999999999999999999999"]);
    assert!(told.contains("up to 9223372036854775807"), "{told}");
}

/// The help lists each command once, under its purpose.
#[test]
fn every_command_is_in_one_group() {
    let command = Cli::command();
    let mut commands: Vec<&str> = command.get_subcommands().map(|it| it.get_name()).collect();
    let mut grouped: Vec<&str> = groups::GROUPS
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    commands.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(grouped, commands);
}

/// Every text of the repository but tests, with its path.
fn texts(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let skipped = ["target", "tests", "snapshots", "tests.rs"];
        if name.starts_with('.') || skipped.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            texts(&path, found);
        } else if ["rs", "sql", "md", "toml", "html"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path.display().to_string(), text));
        }
    }
}

/// Commands in backticks after `consign `, and in documents after a prompt.
fn named(path: &str, text: &str) -> Vec<String> {
    // Strings of Rust go on in the next line, comments and SQL too.
    let lines = text.lines().map(str::trim_start);
    let joined: String = lines
        .map(|line| line.trim_start_matches("///").trim_end_matches('\\').trim())
        .collect::<Vec<_>>()
        .join("\n");
    let quoted = joined.split("`consign ").skip(1);
    let quoted = quoted.filter_map(|rest| rest.split('`').next());
    let mut named: Vec<String> = quoted.map(|line| line.replace('\n', " ")).collect();
    if path.ends_with("md") {
        let typed = text
            .lines()
            .filter_map(|line| line.strip_prefix("$ consign "));
        named.extend(typed.map(str::to_owned));
    }
    named
}

/// What is wrong with a command line that a text names.
fn complaint(line: &str) -> Option<String> {
    let mut command = command(&REGISTRY);
    command.build();
    let mut at = &command;
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.peek() {
        let Some(next) = at.find_subcommand(word) else {
            break;
        };
        at = next;
        words.next();
    }
    let is_word = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let next = words.peek().copied().unwrap_or_default();
    let takes_words = at.get_positionals().next().is_some();
    if at.has_subcommands()
        && !takes_words
        && !next.is_empty()
        && is_word(next)
        && !next.starts_with('-')
    {
        return Some(format!("{} has no command {next:?}", at.get_name()));
    }
    let flags = words.filter_map(|word| word.strip_prefix("--"));
    let flags = flags.map(|flag| flag.split(['=', '`', ')', ',', ';']).next().unwrap_or(""));
    for flag in flags.filter(|flag| !flag.is_empty() && is_word(flag)) {
        let known = at
            .get_arguments()
            .any(|known| known.get_long() == Some(flag));
        if !known && !["help", "version"].contains(&flag) {
            return Some(format!("{} has no flag --{flag}", at.get_name()));
        }
    }
    None
}

#[test]
fn every_command_that_a_text_names_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    texts(&root, &mut found);
    let (mut count, mut complaints) = (0, Vec::new());
    for (path, text) in &found {
        for line in named(path, text) {
            count += 1;
            if let Some(why) = complaint(&line) {
                complaints.push(format!("{path}: `consign {line}`: {why}"));
            }
        }
    }
    assert!(count > 200, "only {count} were found");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(complaint("history 7").is_some());
    assert!(complaint("queues drop x").is_some());
    assert!(complaint("ls --colour red").is_some());
}
