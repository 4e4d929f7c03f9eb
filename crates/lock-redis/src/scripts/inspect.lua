-- Tells who holds a lock and who waits for it. Writes nothing.
--
-- Replies with four parts: its holders, each as "mode token left", with the token of the grant or `-`,
-- and what is left of the lease in ms, or -1 if it has no end; how many there are in all; those who
-- wait, each as "mode left", with what is left of the place; and how many there are in all. No more
-- than a thousand of either are listed. Of a mode that has a secret only the first letter is told.

