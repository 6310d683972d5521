-- Whether a user exists, active or not. ?1 user.
SELECT EXISTS (SELECT 1 FROM identity_users WHERE user_id = ?1)
