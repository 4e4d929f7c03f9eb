-- Says what is at the key of a lock, as far as it takes to see that it changed.
--
-- Replies with nothing if there is nothing, or else with "length head tail": how long it is, and its first
-- and its last bytes. Somebody else's may be of any length.

local value = redis.call('GET', KEYS[1])
if not value then
  return false
end
return #value .. ' ' .. string.sub(value, 1, 64) .. ' ' .. string.sub(value, -64)
