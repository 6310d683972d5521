-- Replaces a batch's messages by what is left of them. ?1 batch, ?2 ids, ?3 tries, ?4 attempts.
UPDATE ready SET ids = ?2, tries = ?3, attempts = ?4 WHERE batch = ?1
