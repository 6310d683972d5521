//! Storing, finding, reading, changing and removing memories.

use serde_json::{Value, json};

use super::{
    ToolInfo,
    parts::{
        actor, evidence_item, flag, item, items, kind, limit, maybe, object, rows, spaces, text,
        texts, time, whole, word, written,
    },
};

pub(super) fn tools() -> Vec<ToolInfo> {
    vec![
        store(),
        query(),
        get(),
        list(),
        update(),
        delete(),
        spaces_tool(),
        outbox(),
    ]
}

fn store() -> ToolInfo {
    ToolInfo::new(
        "memory_store",
        "Stores a memory: a short text that is useful in later conversations, such as a decision, \
         a procedure or a pitfall. Use it when you learn something that outlives the task; do not \
         store what is in the code already. The same text in the same space is stored once, so \
         repeating a call is safe. Read `action` in the answer: allow and redirect mean it is \
         stored (space_written names the space), deferred means it is kept and will be delivered, \
         reject and error mean it is not stored. Example: {\"payload_md\": \"Deploys to \
         production run on Tuesdays only.\", \"kind\": \"PROCEDURE\", \"evidence_refs\": \
         [\"https://wiki.example/deploys\"]}",
        &["payload_md"],
        json!({
            "payload_md": text(
                "The memory itself, as Markdown, best 1 to 5 sentences that make sense on their own. \
                 An empty text only together with card."
            ),
            "card": card(),
            "target_space": text(
                "Who it is for: team:<project> for the project's team, private:<user> for one \
                 user, org:<name> for the whole organisation. Leave it out for the team's space. \
                 What the project's policy does not let into a shared space is stored in your \
                 private one, and the action is redirect."
            ),
            "kind": kind(
                "What sort of memory it is: FACT (something that is so), PROCEDURE (how something is done), \
                 PITFALL (what goes wrong easily), DECISION (what was decided and why), REVIEW_GUIDE (what to \
                 look at in reviews), REFLECTION (what you made of it)."
            ),
            "evidence_refs": texts(
                "Where the memory comes from, as URIs, such as \
                 [\"https://github.example/pull/7\"]. Most projects require it for shared spaces."
            ),
            "evidence": json!({
                "type": "array", "items": evidence_item(),
                "description": "The same as evidence_refs with hashes; give one of the two. evidence_upload \
                                answers with such an item.",
            }),
            "meta_json": object(
                "Values of your own to keep with the memory, such as {\"module\": \"billing\"}; memory_query \
                 can filter by them."
            ),
            "is_bulk": flag("Whether this is one of very many memories written by a machine; then it must be short."),
            "item_id": whole("The logbook item that the memory is about, if there is one."),
            "actor_user_id": actor(),
        }),
        written(),
    )
    .writing()
}

/// A memory in fields.
fn card() -> Value {
    json!({
        "type": "object",
        "description": "The memory in fields, in place of payload_md (leave that empty): built into a card of \
                        one layout, shortened where it is too long.",
        "required": ["kind", "owner", "module", "summary", "details", "evidence"],
        "additionalProperties": false,
        "properties": {
            "kind": kind("What sort of memory it is, as the argument kind."),
            "owner": text("Who vouches for it: a user id, in one line."),
            "module": text("The part of the project that it is about, such as client/ui/button."),
            "summary": text("The memory in one sentence of at most 200 characters."),
            "details": texts("The memory point by point: at most 10 points of at most 500 characters."),
            "evidence": json!({
                "type": "array", "items": card_evidence(),
                "description": "What it is based on, at least one item, at most 10.",
            }),
            "confidence": word(&["high", "mid", "low"], "How sure it is; mid unless given."),
            "visibility": word(&["team", "private", "org"], "Who should see it; team unless given."),
            "ttl": word(&["long", "mid", "short"], "How long it will hold: years, months or weeks; mid unless given."),
        },
    })
}

fn card_evidence() -> Value {
    json!({
        "type": "object",
        "required": ["uri", "sha256"],
        "properties": {
            "uri": text("Where it is; begins with memory://, svn://, git:// or https://."),
            "sha256": text("The SHA-256 of the evidence, 64 hex digits."),
            "event_id": text("The logbook event it is, if it is one."),
            "svn_rev": text("The Subversion revision it is, if it is one."),
            "git_commit": text("The Git commit it is, if it is one."),
            "mr": text("The merge request it is, if it is one."),
        },
    })
}

fn query() -> ToolInfo {
    ToolInfo::new(
        "memory_query",
        "Searches memories by words and answers with those that fit best. Use it before you begin a task, and \
         whenever you are about to decide something that may have been decided before. A memory fits if it has \
         any of the words; more of them are better. Without the memory server the logbook is searched instead, \
         and `degraded` is true: rely on those results less. \
         Example: {\"query\": \"when do deploys run\", \"filters\": {\"kind\": \"PROCEDURE\"}, \"top_k\": 5}",
        &["query"],
        json!({
            "query": text("The words to look for, as a sentence or not. There are no search \
                operators."),
            "spaces": spaces(),
            "filters": filters(),
            "top_k": limit(10, 100),
            "actor_user_id": actor(),
        }),
        json!({
            "results": items("The memories that fit, best first."),
            "total": whole("How many results there are in this answer."),
            "spaces_searched": texts("The spaces that were searched."),
            "source": text("Who answered: embedded, openmemory or logbook_fallback."),
            "degraded": flag("Whether the memory server did not answer and the logbook was searched instead."),
        }),
    )
}

fn filters() -> Value {
    json!({
        "type": "object",
        "description": "What else must fit, all of it, the same on every backend. Any other name is compared \
                        with the value of that name in meta, such as {\"module\": \"billing\"}.",
        "properties": {
            "kind": kind("Only memories of this sort."),
            "actor_user_id": text("Only memories stored by this user."),
            "since": time("Only memories stored at this time or later."),
            "until": time("Only memories stored before this time."),
        },
    })
}

fn get() -> ToolInfo {
    ToolInfo::new(
        "memory_get",
        "Reads one memory by its id, whole, with its kind, writer, time and evidence. Use it when \
         a search, a list or an earlier answer gave you an id and you want the memory itself. \
         Private memories of other users are not found. Example: {\"id\": \
         \"mem_0123456789abcdef0123456789abcdef\"}",
        &["id"],
        json!({"id": text("The memory's id: `id` of a result, or `memory_id` of an answer to memory_store.")}),
        json!({"memory": item_described()}),
    )
}

fn item_described() -> Value {
    let mut item = item();
    item["description"] = json!("The memory with the requested id.");
    item
}

fn list() -> ToolInfo {
    ToolInfo::new(
        "memory_list",
        "Lists memories newest first, page by page, without searching for words. Use it to see what was stored \
         lately, of one kind or in one space, or to go through everything: call again with `cursor` set to \
         next_cursor until that is null. \
         Example: {\"spaces\": [\"team:web\"], \"kind\": \"DECISION\", \"since\": \"2026-01-01T00:00:00Z\", \"limit\": 20}",
        &[],
        json!({
            "spaces": spaces(),
            "kind": kind("Only memories of this sort."),
            "actor": text("Only memories stored by this user."),
            "since": time("Only memories stored at this time or later."),
            "until": time("Only memories stored before this time."),
            "limit": limit(20, 100),
            "cursor": text("next_cursor of the page before; leave it out for the first page."),
            "actor_user_id": actor(),
        }),
        json!({
            "results": items("The memories of this page, newest first; there may be fewer than limit."),
            "total": whole("How many results there are in this page."),
            "next_cursor": maybe(text("Where the next page begins; null: this was the last one.")),
            "spaces_searched": texts("The spaces that were listed."),
        }),
    )
}

fn update() -> ToolInfo {
    let mut answered = written();
    answered["supersedes"] = text("The id of the version that was replaced.");
    ToolInfo::new(
        "memory_update",
        "Replaces a memory by a newer version with another text, in the same space; the new version has an id of \
         its own and names the old one, which is not found any more. Use it when something you once stored is \
         not so any longer, in place of storing a second, contradicting memory. What you leave out (kind, \
         evidence, meta_json) stays as it was. \
         Example: {\"id\": \"mem_0123456789abcdef0123456789abcdef\", \"payload_md\": \"Deploys to production run on \
         Tuesdays and Thursdays.\"}",
        &["id", "payload_md"],
        json!({
            "id": text("The id of the memory to replace, as memory_query, memory_list or memory_store gave it."),
            "payload_md": text("The new text, whole, as Markdown; must differ from the old one."),
            "kind": kind("What sort of memory the new version is; the old one's unless given."),
            "evidence_refs": texts("Where the new version comes from, as URIs; the old one's evidence unless given."),
            "evidence": json!({
                "type": "array", "items": evidence_item(),
                "description": "The same as evidence_refs with hashes; give one of the two.",
            }),
            "meta_json": object("Values of your own to keep with the new version; the old one's unless given."),
            "actor_user_id": actor(),
        }),
        answered,
    )
    .destroying()
}

fn delete() -> ToolInfo {
    ToolInfo::new(
        "memory_delete",
        "Removes a memory for good, with the older versions it replaced. Use it for what should never have been \
         stored, such as something wrong or secret; for what has changed use memory_update. The removal itself \
         is recorded; the same text may be stored again later. \
         Example: {\"id\": \"mem_0123456789abcdef0123456789abcdef\"}",
        &["id"],
        json!({
            "id": text("The id of the memory to remove, as memory_query, memory_list or memory_store gave it."),
            "actor_user_id": actor(),
        }),
        json!({
            "action": word(&["allow", "reject", "error"], "allow: removed. reject: refused. error: failed, it may be there still."),
            "reason": maybe(text("Why, as the audit has it: a stable code such as \
                memory_delete:not_found.")),
            "memory_id": text("The id of the memory that was removed."),
            "space": text("The space that the memory was in."),
        }),
    )
    .destroying()
}

fn spaces_tool() -> ToolInfo {
    ToolInfo::new(
        "memory_spaces",
        "Lists the spaces that you can read: the team's, your private one, and shared ones that \
         have memories; shows which of them memory_query searches by default, and where your \
         memories go. Use it when you do not know which spaces there are. Example: \
         {\"actor_user_id\": \"alice\"}",
        &[],
        json!({"actor_user_id": actor()}),
        json!({
            "spaces": rows("The spaces, each with space (its name), kind (team, private, org) and searched_by_default."),
            "total": whole("How many spaces there are in this answer."),
            "default_space": text("Where memory_store puts a memory that names no space, if the policy lets it."),
            "private_space": maybe(text("Where your memories go that the policy keeps out of shared spaces.")),
            "team_write_enabled": flag("Whether memories may be written to shared spaces at all."),
        }),
    )
}

fn outbox() -> ToolInfo {
    ToolInfo::new(
        "outbox_status",
        "Shows memories that could not be stored at once (action deferred): which wait, which were delivered \
         since, which were given up after several tries. Use it to look up the outbox_id of an earlier answer; \
         there is no need to store such a memory again. \
         Example: {\"outbox_id\": 12}",
        &[],
        json!({
            "outbox_id": whole("One row of the outbox, by the outbox_id that memory_store answered with."),
            "status": word(&["pending", "sent", "dead"], "Only rows that wait, were delivered, or were given up."),
            "limit": limit(50, 1_000),
        }),
        json!({
            "rows": rows("The rows, newest first, without their texts. Of one with erased_at an operator removed the text."),
            "total": whole("How many rows there are in this answer."),
        }),
    )
}
