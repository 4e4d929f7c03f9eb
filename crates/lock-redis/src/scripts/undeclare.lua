-- Removes the record of the permits.
--
-- KEYS[1]  the lock
-- KEYS[2]  the record of its permits: see keys.lua
-- ARGV[1]  the token of the owner that holds the lock alone
--
-- Replies 1, or 0 if the owner does not hold the lock.

if not holds(ARGV[1]) then
  return 0
end
call('DEL', KEYS[2])
return 1
