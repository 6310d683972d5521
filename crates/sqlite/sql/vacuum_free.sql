-- How many pages of the file are free, and how many there are.
SELECT freelist_count, page_count FROM pragma_freelist_count(), pragma_page_count()
