-- Reads the value beside a lock.
--
-- KEYS[1]  the lock
-- KEYS[2]  the value: "owner token value", with the owner that wrote it and its fencing token
--
-- Replies with nothing if there is no value. Otherwise replies with three parts: the token; 1 if its
-- owner holds the lock alone, or 0; and the value.

local cell = redis.call('GET', KEYS[2])
if not cell then
  return false
end
local owner, token, value = string.match(cell, '^(%x+) (%d+) (.*)$')
if not owner then
  return redis.error_reply('LOCKCELL the key of the value holds something else')
end
return { token, holds(owner) and 1 or 0, value }
