-- Whether a user exists and is active. ?1 user.
SELECT EXISTS (SELECT 1 FROM identity_users WHERE user_id = ?1 AND is_active)
