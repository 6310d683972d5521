-- ?1 the span, ?2 its first minute, ?3 the queue, then the counts and the buckets of times.
INSERT INTO queue_stats (span, minute, queue, delivered, retried, dead, uncertain, took_ms,
    ms10, ms25, ms50, ms100, ms250, ms500, ms1000, ms2500, ms10000, more)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
ON CONFLICT (span, minute, queue) DO UPDATE SET
    delivered = delivered + excluded.delivered,
    retried = retried + excluded.retried,
    dead = dead + excluded.dead,
    uncertain = uncertain + excluded.uncertain,
    took_ms = took_ms + excluded.took_ms,
    ms10 = ms10 + excluded.ms10,
    ms25 = ms25 + excluded.ms25,
    ms50 = ms50 + excluded.ms50,
    ms100 = ms100 + excluded.ms100,
    ms250 = ms250 + excluded.ms250,
    ms500 = ms500 + excluded.ms500,
    ms1000 = ms1000 + excluded.ms1000,
    ms2500 = ms2500 + excluded.ms2500,
    ms10000 = ms10000 + excluded.ms10000,
    more = more + excluded.more
