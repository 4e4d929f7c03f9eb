-- Grants a lock, gives the request a place in the queue, or says when to ask again.
--
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  how many consecutive token numbers to reserve, at most
-- ARGV[4]  the channel on which the client hears, if it watches the lock; or empty
-- ARGV[5]  the mode; exclusive if it is left out
-- ARGV[6]  "limit place claim", if the request may be queued: how many may wait, and in ms how long
--          the place is kept and how long a lease lives that is handed over; or empty
-- ARGV[7]  the mode in which the owner holds the lock already, if that lease is to be converted
--
-- Replies, if granted, "first last", the tokens; or "first last left demand", with what is left of the
-- lease in ms, and `w` if somebody waits in the queue, `q` if not. If queued, "q left micros", with the
-- server's clock. If refused, the integer left. `left` is the time in ms until there may be room, or
-- -1 if that has no end.

local value = call('GET', KEYS[1])

-- Most locks are free when they are asked for. This is all that happens then.
--
-- The fence comes first: where there is no memory, or no right, this is the write that fails, and
-- nobody holds a lock that was half granted.
if not value and (ARGV[5] or 'x') == 'x' and not ARGV[7] and call('EXISTS', KEYS[3]) == 0 then
  local range, problem = reserve(ARGV[3], ARGV[2], ARGV[4])
  if not range then
    return redis.error_reply(problem)
  end
  call('SETRANGE', KEYS[1], 0, ARGV[1])
  local expires = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if expires ~= 1 then
    -- A user who may not say when a lock ends shall not have one that never does.
    call('DEL', KEYS[1])
    return expires
  end
  return range
end

