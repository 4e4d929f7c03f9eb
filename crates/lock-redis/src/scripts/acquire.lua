-- Grants a lock that is free, or says who has it and for how long.
--
-- KEYS[1]  the lock: a string that holds the owner's token
-- KEYS[2]  its fence: "first last", the token numbers of the latest grant
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the lease lives, in ms
-- ARGV[3]  how many consecutive token numbers to reserve, at most
--
-- Replies, if granted, "first last"; if this owner held the lock already, "first last left"; if
-- another one does, the integer left. `left` is what remains of the present lease in ms, or -1 if
-- it has no end.

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return redis.call('PTTL', KEYS[1])
end

local fence = redis.call('GET', KEYS[2])
local first, last
if fence then
  first, last = string.match(fence, '^(%d+) (%d+)$')
  if not first then
    return redis.error_reply('LOCKFENCE the fence key holds something else')
  end
end
if holder and first then
  return first .. ' ' .. last .. ' ' .. redis.call('PTTL', KEYS[1])
end

-- The floor is the server's clock in microseconds, so that numbers grow although the fence was
-- forgotten. Were it forgotten while a range reached beyond the clock, the next grant would begin
-- inside that range. So a range takes the microseconds that have gone by since the latest grant, and
-- none beyond the present one. If there are none, or no grant is remembered, one number has to do.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local from, to = now, now
if last then
  from = math.max(last + 1, now + 1 - math.min(ARGV[3], 10000))
  to = math.max(from, math.min(from + ARGV[3] - 1, now))
end
if to >= 9007199254740992 then
  return redis.error_reply('LOCKFENCE the token numbers have run out')
end
local range = string.format('%.0f %.0f', from, to)

-- The fence outlives the lease by an hour, and the time by which it is ahead of the clock.
local keep = ARGV[2] + 3600000 + math.max(0, math.ceil((to - now) / 1000))

-- The fence comes first: where there is no memory, or no right, this is the write that fails, and
-- nobody holds a lock that was half granted.
redis.call('SET', KEYS[2], range, 'PX', keep)
if holder then
  return range .. ' ' .. redis.call('PTTL', KEYS[1])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return range
