//! The pages `docs/sql*.md` are the contract with other languages: the functions granted to roles, no more
//! and no fewer, with the signatures they have.

use std::collections::BTreeMap;

use crate::repository::{demand, files, is_product};

#[test]
fn the_documented_functions_are_those_granted() {
    let granted = granted();
    let documented = documented();
    assert!(
        granted.len() > 10,
        "only {granted:?}: has the form of the grants changed?"
    );
    let mut complaints = Vec::new();
    for (name, roles) in &granted {
        match documented.get(name) {
            None => complaints.push(format!("{name}: granted, but on no page docs/sql*.md")),
            Some(entry) if entry.roles != *roles => complaints.push(format!(
                "{name}: granted to {roles}, but the page has {}",
                entry.roles
            )),
            Some(_) => {}
        }
    }
    for name in documented
        .keys()
        .filter(|name| !granted.contains_key(*name))
    {
        complaints.push(format!("{name}: documented, but granted to no role"));
    }
    demand(
        &complaints,
        "A function has a heading ### `consign.name` and below it the line \"For `role`.\" \
         (several roles: \"For `role`, `role`.\").",
    );
}

#[test]
fn the_documented_signatures_are_those_created() {
    let created = created();
    let mut complaints = Vec::new();
    for (name, entry) in documented() {
        let signatures = created.get(&name).cloned().unwrap_or_default();
        if !signatures.contains(&entry.signature) {
            complaints.push(format!(
                "{name}:\n  the page      {}\n  migrations    {}",
                entry.signature,
                signatures.join("\n                ")
            ));
        }
    }
    demand(
        &complaints,
        "Copy the signature from the migration into the page.",
    );
}

/// No migration was released: each describes the current schema, not its history.
#[test]
fn no_migration_changes_what_another_created() {
    /// What cannot be part of a CREATE TABLE in every version of PostgreSQL that consign runs on.
    const MAY: [&str; 2] = ["SET STORAGE", "ENABLE ROW LEVEL SECURITY"];
    let mut complaints = Vec::new();
    for file in files(&["sql"]) {
        if !file.path.contains("/migrations/") {
            continue;
        }
        for statement in file.text.split(";\n") {
            let lines = statement.lines().filter(|line| !line.starts_with("--"));
            let statement = flat(&lines.collect::<Vec<_>>().join("\n"));
            let alters = statement.starts_with("ALTER TABLE")
                && !MAY.iter().any(|may| statement.contains(may));
            if alters
                || statement.starts_with("DROP ")
                || statement.starts_with("CREATE OR REPLACE ")
            {
                let first: String = statement.chars().take(80).collect();
                complaints.push(format!("{}: {first}", file.path));
            }
        }
    }
    for (name, signatures) in created() {
        let unique: std::collections::BTreeSet<_> = signatures.iter().collect();
        if unique.len() < signatures.len() {
            complaints.push(format!("{name}: created twice"));
        }
    }
    demand(
        &complaints,
        "Edit the statement that creates it. From the first release on, migrations are forward only.",
    );
}

/// Functions and the roles that may call them, from the last migration of roles.
fn granted() -> BTreeMap<String, String> {
    let mut granted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for migration in migrations() {
        for grant in migration.split("GRANT EXECUTE ON FUNCTION").skip(1) {
            let (functions, rest) = grant.split_once(" TO ").expect("a grant names roles");
            let roles = rest.split_once(';').expect("a grant ends").0;
            for schema in ["consign", "logbook", "governance", "scm"] {
                for part in functions.split(&format!("{schema}.")).skip(1) {
                    let name = part.split('(').next().unwrap_or_default().trim();
                    // A type among the arguments, not a function.
                    if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                        continue;
                    }
                    let of = granted.entry(format!("{schema}.{name}")).or_default();
                    of.extend(roles.split(',').map(|role| role.trim().to_owned()));
                }
            }
        }
    }
    let joined = |(name, mut roles): (String, Vec<String>)| {
        roles.sort();
        (name, roles.join(", "))
    };
    granted.into_iter().map(joined).collect()
}

struct Entry {
    roles: String,
    signature: String,
}

/// The functions of the pages: a heading, the roles, the signature in a code block.
fn documented() -> BTreeMap<String, Entry> {
    let pages = files(&["md"]).into_iter();
    let pages = pages.filter(|page| page.path.starts_with("docs/sql"));
    let text: String = pages.map(|page| page.text).collect();
    let mut entries = BTreeMap::new();
    for section in text.split("\n### `").skip(1) {
        let (name, body) = section
            .split_once('`')
            .expect("a heading ends with a backtick");
        let roles = body.split_once("\nFor ").map_or("", |(_, rest)| rest);
        let roles = roles
            .split(".\n")
            .next()
            .unwrap_or_default()
            .replace('`', "");
        let code = body.split_once("```sql\n").map_or("", |(_, rest)| rest);
        let signature = flat(code.split("```").next().unwrap_or_default());
        entries.insert(name.to_owned(), Entry { roles, signature });
    }
    entries
}

/// The text between CREATE FUNCTION and LANGUAGE, by name.
fn created() -> BTreeMap<String, Vec<String>> {
    let mut created: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for migration in migrations() {
        for rest in migration.split("CREATE FUNCTION ").skip(1) {
            let signature = rest.split("LANGUAGE").next().unwrap_or_default();
            let name = signature.split('(').next().unwrap_or_default().to_owned();
            created.entry(name).or_default().push(flat(signature));
        }
    }
    created
}

fn migrations() -> Vec<String> {
    files(&["sql"])
        .into_iter()
        .filter(|file| is_product(file) && file.path.contains("postgres/migrations/"))
        .map(|file| {
            file.text
                .replace("CREATE OR REPLACE FUNCTION", "CREATE FUNCTION")
        })
        .collect()
}

/// On one line, whatever the indentation.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
