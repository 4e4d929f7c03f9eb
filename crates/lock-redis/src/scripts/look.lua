-- Reads what is at the key of a lock, as far as a change can be seen.
--
-- Replies with nothing if the key is absent, or otherwise with "head tail", its first and its last bytes. A lock
-- of this library has no others. A foreign value may be of any length, and a change in its middle does not show.
-- The mark of a lock is no change.

local head = call('GETRANGE', KEYS[1], 0, 63)
if head == '' and call('EXISTS', KEYS[1]) == 0 then
  return false
elseif #head == 33 and string.byte(head, 33) == 119 then
  head = string.sub(head, 1, 32)
end
return head .. ' ' .. (#head == 64 and call('GETRANGE', KEYS[1], -64, -1) or '')
