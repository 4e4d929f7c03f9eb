-- Says which run of the server this is, and whether it is kept out of votes.
--
-- KEYS[1]  the record of its standing
-- ARGV[1]  something random, of which the name of a quarantine is made if one begins
--
-- Replies "run quarantine most", as the record has it.

