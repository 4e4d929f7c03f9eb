-- Says what is at the key of a lock, as far as it takes to see that it changed.
--
-- Replies with nothing if there is nothing, or else with "head tail", its first and its last bytes. That is all of
-- a lock of ours. What a client of another kind keeps there may be of any length, and what changes in the
-- middle of it is not told. The mark of a lock is no change.

local head = call('GETRANGE', KEYS[1], 0, 63)
if head == '' and call('EXISTS', KEYS[1]) == 0 then
  return false
elseif #head == 33 and string.byte(head, 33) == 119 then
  head = string.sub(head, 1, 32)
end
return head .. ' ' .. (#head == 64 and call('GETRANGE', KEYS[1], -64, -1) or '')
