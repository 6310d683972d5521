SELECT problem, severity, at, until, actor, reason FROM acknowledgement WHERE until > ?1 ORDER BY problem LIMIT ?2
