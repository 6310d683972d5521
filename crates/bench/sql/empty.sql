DELETE FROM consign.ready WHERE queue = $1
