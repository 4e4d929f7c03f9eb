-- Lists the holders of a lock and its waiting claims. Writes nothing.
--
-- Replies with four parts: its holders, each as "mode token left client", with the token of the grant or
-- `-`, what is left of the lease in ms, or -1 if it has no end, and the mark of the client or `-`; the
-- number of holders; the waiting claims, each as "mode left waited client", with what is left of the
-- place, and for how long the claim has been in the queue, both in ms, or `-` if its place does not say
-- since when; and the number of waiting claims. The mark of a client is the end of its owner tokens,
-- 10 digits. At most a thousand of either are listed. Of a mode that contains a secret, only the first
-- letter is listed.

