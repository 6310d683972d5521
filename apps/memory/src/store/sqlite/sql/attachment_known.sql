-- The attachment of this hash and kind. ?1 item, ?2 kind, ?3 sha256.
SELECT attachment_id FROM attachments WHERE item_id = ?1 AND kind = ?2 AND sha256 = ?3
