-- Ends the lease of an owner that holds a lock alone, if no claim waits and no client listens. The state then says that
-- the lock was released.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
-- ARGV[1]  the owner's token
-- ARGV[2]  the number of the request
--
-- Replies as release_quick.lua.

if redis.pcall('GETRANGE', KEYS[1], '0', '33') == ARGV[1] then
  redis.call('DEL', KEYS[1])
  -- If this fails, a later term takes the lock for one that was not released, and waits.
  if redis.pcall('GETRANGE', KEYS[2], '33', '34') == ' t' then
    redis.pcall('SETRANGE', KEYS[2], '34', 'r')
  end
  return ARGV[2]
end
return ARGV[2] .. ' ?'
