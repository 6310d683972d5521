-- Overwriting would cost every other transaction.
PRAGMA secure_delete = OFF
