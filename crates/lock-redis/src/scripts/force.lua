-- Ends every lease on a lock, whoever has it, and serves who comes next.
--
-- ARGV[1]  the channel to tell of it
--
-- Replies how many leases there were.

