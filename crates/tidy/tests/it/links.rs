//! Links in Markdown.

use crate::repository::{File, demand, files, root};

#[test]
fn relative_links_lead_somewhere() {
    let mut complaints = Vec::new();
    for file in files(&["md"]) {
        for (number, target) in links(&file) {
            if let Err(why) = follow(&file, target) {
                complaints.push(format!("{}:{number}: {target}: {why}", file.path));
            }
        }
    }
    demand(&complaints, "Correct the link, or write its target.");
}

/// Targets of links outside code, with their lines.
fn links(file: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(file) {
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target));
            }
        }
    }
    found
}

fn follow(file: &File, target: &str) -> Result<(), String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let place = match path {
        "" => root().join(&file.path),
        path => root().join(folder).join(path),
    };
    if !place.exists() {
        return Err("there is no such file".into());
    }
    if anchor.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&place).map_err(|error| error.to_string())?;
    let linked = File {
        path: String::new(),
        text,
    };
    let known = prose(&linked)
        .filter(|(_, line)| line.starts_with('#'))
        .any(|(_, line)| slug(line) == anchor);
    known
        .then_some(())
        .ok_or_else(|| "there is no such heading".into())
}

/// The anchor of a heading, as Markdown viewers make it.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Lines outside fenced code.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}
