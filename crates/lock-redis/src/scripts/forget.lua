-- Ends a lease of permits and takes them out of the number that there is, or gives up a place in the
-- queue, and serves who comes next.
--
-- ARGV[1]  the owner's token
-- ARGV[2]  the mode
--
-- Replies -1 if the owner does not hold the lock in this mode, or else 0.

