DELETE FROM acknowledgement WHERE problem = ?1
