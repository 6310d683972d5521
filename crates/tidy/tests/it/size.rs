//! How long things may be.

use crate::repository::{File, demand, file, files};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 80;
const ARCHITECTURE_LINES_MAX: usize = 200;
const README_LINES_MAX: usize = 120;

/// Tests that are one table, or one walk through every operation: cutting them up would hide what
/// they show.
const TABLES: &[&str] = &[
    "every_operation_works_through_a_transaction_pooler",
    "roles_act_as_granted",
];

#[test]
fn files_are_short() {
    let complaints: Vec<String> = files(&["rs", "sql"])
        .iter()
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(file, lines)| format!("{}: {lines} lines", file.path))
        .collect();
    demand(
        &complaints,
        &format!("A file is about one noun: split what is over {FILE_LINES_MAX} lines."),
    );
}

#[test]
fn functions_are_short() {
    let mut complaints = Vec::new();
    for file in files(&["rs"]) {
        for function in functions(&file) {
            if function.lines > FUNCTION_LINES_MAX && !TABLES.contains(&function.name) {
                complaints.push(format!(
                    "{}:{}: {} is {} lines long",
                    file.path, function.line, function.name, function.lines
                ));
            }
        }
    }
    demand(
        &complaints,
        &format!(
            "A function fits a screen: cut what is over {FUNCTION_LINES_MAX} lines. One that is \
             nothing but a table goes into TABLES in this test."
        ),
    );
}

#[test]
fn the_architecture_can_be_read_in_one_sitting() {
    let lines = file("ARCHITECTURE.md").text.lines().count();
    assert!(
        lines <= ARCHITECTURE_LINES_MAX,
        "ARCHITECTURE.md has {lines} lines; move what is detail into docs/"
    );
}

#[test]
fn the_readme_can_be_read_in_thirty_seconds() {
    let lines = file("README.md").text.lines().count();
    assert!(
        lines <= README_LINES_MAX,
        "README.md has {lines} lines; move what is detail into docs/"
    );
}

struct Function<'f> {
    name: &'f str,
    line: usize,
    lines: usize,
}

/// The functions of a formatted file: rustfmt ends each with a brace under its first letter.
fn functions(file: &File) -> Vec<Function<'_>> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", " ".repeat(indent));
        // A declaration without a body ends before any brace.
        let body = lines[index..].iter().position(|line| line.contains('{'));
        let declared = lines[index..].iter().position(|line| line.ends_with(';'));
        if declared.is_some_and(|end| body.is_none_or(|start| end < start)) {
            continue;
        }
        if let Some(end) = lines[index..].iter().position(|line| *line == closing) {
            found.push(Function {
                name,
                line: index + 1,
                lines: end + 1,
            });
        }
    }
    found
}

/// The name of the function whose signature starts on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if rest.starts_with("pub(") {
        rest = rest.split_once(") ")?.1;
    }
    for word in ["pub ", "const ", "async "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&name[..end])
}

#[test]
fn a_long_function_would_be_found() {
    let text = format!(
        "impl A {{\n    fn declared(&self);\n\n    pub(crate) async fn long() {{\n{}    }}\n}}\n",
        "        step();\n".repeat(90)
    );
    let file = File {
        path: "a.rs".into(),
        text,
    };
    let found = functions(&file);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name, found[0].lines), ("long", 92));
}
