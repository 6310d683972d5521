-- Gives up to 32 free pages, 128 KiB, back to the file system, in a file that was created with auto_vacuum = INCREMENTAL.
PRAGMA incremental_vacuum(32)
