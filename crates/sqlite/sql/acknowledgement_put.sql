INSERT INTO acknowledgement (problem, severity, at, until, actor, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (problem) DO UPDATE SET severity = excluded.severity, at = excluded.at, until = excluded.until,
    actor = excluded.actor, reason = excluded.reason
