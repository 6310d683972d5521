//! `docs/sql.md` is the contract with other languages: the functions granted to roles, no more and
//! no fewer, with the signatures they have.

use std::collections::BTreeMap;

use crate::repository::{demand, file, files};

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
            None => complaints.push(format!("{name}: granted, but not in docs/sql.md")),
            Some(entry) if entry.roles != *roles => complaints.push(format!(
                "{name}: granted to {roles}, but docs/sql.md says {}",
                entry.roles
            )),
            Some(_) => {}
        }
    }
    for name in documented
        .keys()
        .filter(|name| !granted.contains_key(*name))
    {
        complaints.push(format!("{name}: in docs/sql.md, but granted to nobody"));
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
                "{name}:\n  docs/sql.md   {}\n  migrations    {}",
                entry.signature,
                signatures.join("\n                ")
            ));
        }
    }
    demand(
        &complaints,
        "Copy the signature from the migration into docs/sql.md.",
    );
}

/// Functions and the roles that may call them, as the last migration of roles says.
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

/// The functions of the document: a heading, the roles, the signature in a code block.
fn documented() -> BTreeMap<String, Entry> {
    let document = file("docs/sql.md");
    let mut entries = BTreeMap::new();
    for section in document.text.split("\n### `").skip(1) {
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

/// What stands between CREATE FUNCTION and LANGUAGE, by name.
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
        .filter(|file| file.path.contains("postgres/migrations/"))
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
