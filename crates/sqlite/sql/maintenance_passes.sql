-- How the last passes ended.
SELECT pass_at, pass_end, pass_since, passes, pass_ends FROM maintenance WHERE pass_end IS NOT NULL
