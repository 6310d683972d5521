-- Gives up to 256 free pages, 1 MiB, back to the file system, in a file that was created with auto_vacuum = INCREMENTAL.
PRAGMA incremental_vacuum(256)
