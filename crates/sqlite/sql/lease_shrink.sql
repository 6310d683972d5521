-- Replaces what a lease holds. ?1 fence, ?2 ids, ?3 tries, ?4 attempts, ?5 begun.
UPDATE lease SET ids = ?2, tries = ?3, attempts = ?4, begun = ?5 WHERE fence = ?1
