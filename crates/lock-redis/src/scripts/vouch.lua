-- Ends a quarantine, or allows longer leases than before.
--
-- KEYS[1]  the record of the server's standing
-- ARGV[1]  the name of the quarantine
-- ARGV[2]  the longest lease, in ms, that may be granted from now on
--
-- Replies 1, or 0 if that is not the latest quarantine.

local FORM = '^([%x+]+) (%x+) ([%d-]+) ([%x-]+) (%d+) ([%d-]+)$'

