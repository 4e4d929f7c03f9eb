-- Lists the holders of a lock and its waiting claims. Writes nothing.
--
-- Replies with four parts: its holders, each as "mode token left", with the token of the grant or `-`,
-- and what is left of the lease in ms, or -1 if it has no end; the number of holders; the waiting
-- claims, each as "mode left", with what is left of the place; and the number of waiting claims. At
-- most a thousand of either are listed. Of a mode that contains a secret, only the first letter is
-- listed.

