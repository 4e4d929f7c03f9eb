-- Ends the lease of an owner that holds a lock alone, and makes all clients that watch the lock ask for it. For
-- the time while the slot of its keys is moved: then a script can name no key but this one.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token
-- ARGV[2]  the channel for the message that the lock is free, or empty
-- ARGV[3]  the number of the request
--
-- Replies with the number alone if the lock is free, or with the number and, after a space, `?` if the owner does
-- not hold it alone.

local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
if value ~= ARGV[1] and value ~= ARGV[1] .. 'w' then
  return ARGV[3] .. ' ?'
end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then
  redis.pcall('PUBLISH', ARGV[2], 'released')
end
return ARGV[3]
