-- Gives an exclusive claim a place at the end of the queue, behind an owner of this library that holds the lock alone.
-- Grants nothing.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
-- KEYS[3]  its queue
-- KEYS[4]  the places of its claims
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the state outlives a lease, in ms
-- ARGV[3]  how many claims may wait
-- ARGV[4]  how long the place is kept, in ms
-- ARGV[5]  the rest of the place: how long a lease lives that is handed over, how many tokens it reserves, and the inbox
--          on which the client hears
-- ARGV[6]  the number of the request
--
-- Replies with the number and, after a space, "q left micros": what is left of the lease, in ms, and the server's clock;
-- or `?` if the full script has to decide.

local call = redis.call
local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
local state = redis.pcall('GET', KEYS[2])
if not state or state.err or value.err or #value < 32 or string.sub(value, 1, 32) == ARGV[1] then
  return ARGV[6] .. ' ?'
end
local is_marked, is_flagged = string.byte(value, 33) == 119, string.byte(state) == 119
local at = is_flagged and 18 or 17
-- The owner whose latest grant left the state, and so a client of this library.
if string.sub(state, at + 1, at + 16) ~= string.sub(value, 1, 16) or #value > 32 and not is_marked or #value > 33 then
  return ARGV[6] .. ' ?'
end

local name, length = 'x:' .. ARGV[1], redis.pcall('LLEN', KEYS[3])
local time = redis.pcall('TIME')
local place = length ~= 0 and redis.pcall('HGET', KEYS[4], name)
if type(length) ~= 'number' or place or length >= tonumber(ARGV[3]) or time.err then
  return ARGV[6] .. ' ?'
end
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now, left = tonumber(string.sub(micros, 1, 13)), call('PTTL', KEYS[1])
local asks = math.floor(ARGV[4] / 3)
if left >= 0 and left < asks then
  asks = left
end

-- Writes the place, and the mark and the flag that speak of it.
local function write_place()
  if length == 0 then
    -- These places belong to a list that has gone.
    call('DEL', KEYS[4])
  end
  call('HSET', KEYS[4], name, string.format('%.0f %.0f - %s %.0f', now + ARGV[4], now + asks, ARGV[5], now))
  local rest = call('PTTL', KEYS[3])
  if rest < tonumber(ARGV[4]) then
    rest = 2 * ARGV[4]
    call('PEXPIRE', KEYS[3], rest)
    call('PEXPIRE', KEYS[4], rest)
  end
  if not is_marked then
    call('SETRANGE', KEYS[1], '32', 'w')
  end
  if not is_flagged then
    call('SET', KEYS[2], 'w' .. state, 'PX', string.format('%.0f', math.max(call('PTTL', KEYS[2]), rest, ARGV[2])))
  end
end

-- This write is refused if there is no memory.
call('RPUSH', KEYS[3], name)
local ok, problem = pcall(write_place)
if not ok then
  -- A write is refused, so the claim gets no place.
  redis.pcall('HDEL', KEYS[4], name)
  redis.pcall('LREM', KEYS[3], 1, name)
  return { ARGV[6], type(problem) == 'table' and problem or { err = problem } }
end
local inbox = length == 0 and string.match(state, ' i(%x+)')
if inbox then
  publish(inbox, 'wanted ' .. KEYS[1])
end
return ARGV[6] .. string.format(' q %.0f ', left) .. micros
