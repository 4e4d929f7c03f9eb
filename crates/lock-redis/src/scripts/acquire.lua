-- Grants a lock that is free, or says who has it and for how long.
--
-- KEYS[1]  the lock: a string that holds the owner's token
-- KEYS[2]  its fence: "first last", the token numbers of the latest grant
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  how many consecutive token numbers to reserve, at most
-- ARGV[4]  how long the fence lives, in ms: well beyond the lease
--
-- Replies, if granted, "first last"; if this owner held the lock already, "first last left"; if
-- another one does, the integer left. `left` is what remains of the present lease in ms, or -1 if
-- it has no end.

local call = redis.call

local holder = call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return call('PTTL', KEYS[1])
end

local fence = call('GET', KEYS[2])
local latest
if fence then
  latest = string.match(fence, '^%d+ (%d+)$')
  if not latest then
    return redis.error_reply('LOCKFENCE the fence key holds something else')
  end
  if holder then
    return fence .. ' ' .. call('PTTL', KEYS[1])
  end
end

-- Token numbers are the server's clock in microseconds, so that they grow although the fence was
-- forgotten. For that, none may lead the clock: the grant after would begin below it. A range ends
-- now, and reaches back over the microseconds that have gone by since the latest grant. Only where
-- not even one has, as after the clock was set back, a single number is taken ahead of it.
local time = call('TIME')
local last = time[1] .. string.sub('00000' .. time[2], -6)
local first, keep = last, ARGV[4]
if latest then
  local before = math.max(latest, last - math.min(ARGV[3], 10000))
  local ahead = before + 1 - last
  if ahead ~= 0 then
    -- As text, a number of this size would lose digits.
    first = string.format('%.0f', before + 1)
  end
  if ahead > 0 then
    if before >= 9007199254740991 then
      return redis.error_reply('LOCKFENCE the token numbers have run out')
    end
    last = first
    -- The clock has to catch up before the fence may be forgotten.
    keep = keep + math.ceil(ahead / 1000)
  end
end
local range = first .. ' ' .. last

-- The fence comes first: where there is no memory, or no right, this is the write that fails, and
-- nobody holds a lock that was half granted.
call('SET', KEYS[2], range, 'PX', keep)
if holder then
  return range .. ' ' .. call('PTTL', KEYS[1])
end
call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return range
