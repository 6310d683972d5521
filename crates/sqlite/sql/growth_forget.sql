-- Removes samples that are too old, and those of the future after the clock was set back. ?1 the first hour that stays,
-- ?2 the last.
DELETE FROM growth WHERE hour < ?1 OR hour > ?2
