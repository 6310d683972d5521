-- Whether a user is known and active. ?1 user.
SELECT EXISTS (SELECT 1 FROM identity_users WHERE user_id = ?1 AND is_active)
