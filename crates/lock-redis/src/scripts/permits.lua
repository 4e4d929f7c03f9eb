-- Tells how many permits a lock has, and changes that.
--
-- ARGV[1]  how many permits the caller declares that it has
-- ARGV[2]  what to do: `look`, `add`, `remove` or `close`
-- ARGV[3]  how many permits to add or to remove at most, or 0
-- ARGV[4]  the channel to tell that permits were added, or that nobody gets any, so that all may ask
--
-- Replies "changed limit held waiting closed": how many were added or removed; how many permits there
-- are, are held, and are waited for; and 1 if nobody gets any, or else 0.

