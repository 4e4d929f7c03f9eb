-- Ends a lease of permits and subtracts them from the number of permits, or gives up a place in the
-- queue, and serves the next claim.
--
-- ARGV[1]  the owner's token
-- ARGV[2]  the mode
--
-- Replies -1 if the owner does not hold the lock in this mode, or else 0.

