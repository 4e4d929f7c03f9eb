-- Ends a lease, and says so to whoever waits.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token
-- ARGV[2]  the channel to tell, or nothing if nobody is to be told
--
-- Replies -1 if the owner does not hold the lock, or else how many clients were told.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[1])
if not ARGV[2] then
  return 0
end

-- A message that may not be sent must not undo the release.
return tonumber(redis.pcall('PUBLISH', ARGV[2], 'released')) or 0
