-- Inserts a user unless it exists. ?1 user, ?2 display name, ?3 now.
INSERT INTO identity_users (user_id, display_name, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (user_id) DO NOTHING
