-- How the last passes ended.
SELECT pass_at, pass_end, pass_since, passes FROM maintenance WHERE pass_end IS NOT NULL
