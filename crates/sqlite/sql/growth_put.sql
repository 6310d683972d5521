-- Keeps a sample of the history for its hour. ?1 hour, ?2 sample.
INSERT INTO growth (hour, sample) VALUES (?1, ?2) ON CONFLICT (hour) DO UPDATE SET sample = excluded.sample
