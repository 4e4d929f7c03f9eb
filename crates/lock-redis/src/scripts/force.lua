-- Ends every lease on a lock, of any owner, and serves the next claim.
--
-- ARGV[1]  the channel for the message about the release
--
-- Replies with the number of leases that there were.

