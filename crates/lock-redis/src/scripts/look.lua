-- Says what is at the key of a lock, as far as it takes to see that it changed.
--
-- Replies with nothing if there is nothing, or else with "length head tail": how long it is, and its first
-- and its last bytes. That is all of a lock of ours. What a client of another kind keeps there may be of any
-- length, and what changes in the middle of it is not told. The mark of a lock is no change.

local length = call('STRLEN', KEYS[1])
local head = call('GETRANGE', KEYS[1], 0, 63)
if length == 0 and call('EXISTS', KEYS[1]) == 0 then
  return false
elseif length == 33 and string.byte(head, 33) == 119 then
  length, head = 32, string.sub(head, 1, 32)
end
return length .. ' ' .. head .. ' ' .. (length > 64 and call('GETRANGE', KEYS[1], -64, -1) or '')
