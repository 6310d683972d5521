DELETE FROM consign.ready WHERE lane = $1
