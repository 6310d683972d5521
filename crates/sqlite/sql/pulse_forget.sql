DELETE FROM pulse WHERE minute < ?1
