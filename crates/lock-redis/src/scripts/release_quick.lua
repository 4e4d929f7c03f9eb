-- Ends the lease of an owner that holds a lock alone, if no claim waits and no client listens.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner's token
-- ARGV[2]  the number of the request
--
-- Replies with the number alone if the lock is free, or with the number and, after a space, `?` if the full script
-- has to decide.

if redis.pcall('GETRANGE', KEYS[1], '0', '33') == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return ARGV[2]
end
return ARGV[2] .. ' ?'
