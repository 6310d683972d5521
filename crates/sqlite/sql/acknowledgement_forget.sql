DELETE FROM acknowledgement WHERE until <= ?1
