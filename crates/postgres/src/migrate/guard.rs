//! What migrations must not touch: a schema of another owner.
//!
//! A login that owns a schema, or may create in it, can put code there that the owner of consign runs. So every
//! schema is created by the migrating login, or is empty and owned by it.

/// A statement that fails with [`FOREIGN`] where one of these schemas is there and is not consign's.
pub(super) fn guard(schemas: &[&str]) -> String {
    let names: Vec<String> = schemas.iter().map(|name| format!("'{name}'")).collect();
    GUARD.replace("{schemas}", &names.join(", "))
}

/// The schemas that a migration makes.
pub(super) fn schemas(sql: &str) -> Vec<&str> {
    let made = sql
        .lines()
        .filter_map(|line| line.strip_prefix("CREATE SCHEMA IF NOT EXISTS "));
    made.map(|name| name.trim_end_matches(';')).collect()
}

/// SQLSTATE of a schema that is not consign's.
pub(super) const FOREIGN: &str = "CN013";

/// Not empty: anything but the version table's own schema, whose content is judged by its checksums.
const GUARD: &str = r"
DO $guard$
DECLARE
    v_wrong text;
BEGIN
    SELECT string_agg(f.why, '; ' ORDER BY n.nspname) INTO v_wrong
        FROM pg_namespace n,
            LATERAL (SELECT string_agg(CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END, ', ') AS names
                         FROM aclexplode(n.nspacl) a WHERE a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner) creator,
            LATERAL (SELECT string_agg(pg_describe_object(d.classid, d.objid, d.objsubid), ', ') AS names
                         FROM (SELECT * FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = n.oid LIMIT 5) d
                         WHERE n.nspname <> 'consign' OR to_regclass('consign.schema_version') IS NULL) content,
            LATERAL (SELECT pg_get_userbyid(c.relowner) AS name FROM pg_class c
                         WHERE c.oid = to_regclass('consign.schema_version') AND n.nspname = 'consign' AND c.relowner <> n.nspowner
                     UNION ALL SELECT NULL LIMIT 1) stranger,
            LATERAL (SELECT CASE
                WHEN pg_get_userbyid(n.nspowner) <> current_user THEN format('schema %I belongs to %I, not to %I', n.nspname, pg_get_userbyid(n.nspowner), current_user)
                WHEN stranger.name IS NOT NULL THEN format('table consign.schema_version belongs to %I, not to %I', stranger.name, current_user)
                WHEN creator.names IS NOT NULL THEN format('in schema %I others may create: %s', n.nspname, creator.names)
                WHEN content.names IS NOT NULL THEN format('schema %I is not empty: %s', n.nspname, content.names) END AS why) f
        WHERE n.nspname IN ({schemas}) AND f.why IS NOT NULL;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', v_wrong
            USING ERRCODE = 'CN013', HINT = 'Migrate as the login that owns the schema. consign uses an existing schema only if it is empty and owned by the migrating login: rename the other objects, or give consign a database of its own';
    END IF;
END $guard$;
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_lists_the_schemas_it_creates() {
        let sql = "-- CREATE SCHEMA IF NOT EXISTS x;\nCREATE SCHEMA IF NOT EXISTS a;\nCREATE SCHEMA IF NOT EXISTS b;\n";
        assert_eq!(schemas(sql), ["a", "b"]);
        assert!(guard(&["a", "b"]).contains("IN ('a', 'b')"));
    }
}
