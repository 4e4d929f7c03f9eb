-- Says what is at the key of a lock, as far as it takes to see that it changed.
--
-- Replies with nothing if there is nothing, or else with "length head tail": how long it is, and its first
-- and its last bytes. That is all of a lock of ours. What somebody else keeps there may be of any length, and
-- what changes in the middle of it is not told.

local value = redis.call('GET', KEYS[1])
if not value then
  return false
end
return #value .. ' ' .. string.sub(value, 1, 64) .. ' ' .. string.sub(value, -64)
