-- Ends the lease of an owner that holds a lock alone. Hands the lock to the first claim in the queue, if that claim is
-- exclusive too and its client hears; or frees the lock, if no claim waits.
--
-- KEYS[1]  the lock
-- KEYS[2]  its state
-- KEYS[3]  its queue
-- KEYS[4]  the places of its claims
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the state outlives a lease, in ms
-- ARGV[3]  the token of an owner that wants the lock next, or empty: if another claim waits, it gets a place
-- ARGV[4]  how long that place is kept, in ms
-- ARGV[5]  the rest of that place, as in wait_quick.lua
-- ARGV[6]  the channel for the message that the lock is free, or empty for no message
-- ARGV[7]  the number of the request
-- ARGV[8]  left out, or the value that goes with the lock: "token length", with the length of the key of the lock, and
--          after a space the key and the value
-- Replies with the number alone if the lease is over; or with the number and, after a space, "f told" if the lock is
-- free, with the number of clients that heard; "q left micros" if the owner that wants the lock next has a place; or
-- `?` if the full script has to decide.

local call = redis.call
local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
if value == ARGV[1] then
  call('DEL', KEYS[1])
  return ARGV[7]
elseif value ~= ARGV[1] .. 'w' then
  return ARGV[7] .. ' ?'
end
local state = redis.pcall('GET', KEYS[2])
local names = redis.pcall('LRANGE', KEYS[3], '0', '1')
local name, second, next_name = names[1], names[2], ARGV[3] ~= '' and 'x:' .. ARGV[3]
local is_ours = state and not state.err and string.byte(state) == 119
  and string.sub(state, 19, 34) == string.sub(ARGV[1], 1, 16)
if not is_ours or names.err or name and string.byte(name) ~= 120 or name == next_name then
  return ARGV[7] .. ' ?'
end

if not name then
  call('DEL', KEYS[1])
  local told = ARGV[6] ~= '' and tonumber(redis.pcall('PUBLISH', ARGV[6], 'released'))
  if told == 0 then
    -- No client listens any more.
    local plain = string.gsub(string.sub(state, 2), ' l', '')
    call('SET', KEYS[2], plain, 'PX', string.format('%.0f', math.max(call('PTTL', KEYS[2]), ARGV[2])))
  end
  return ARGV[7] .. ' f ' .. (told or 0)
end

local places = redis.pcall('HMGET', KEYS[4], name, second or name)
local ends, lease, count, inbox = string.match(places[1] or '', '^(%d+) %d+ %- (%d+) (%d+) (%x+)')
local time = redis.pcall('TIME')
local micros = (time[1] or '') .. string.sub('00000' .. (time[2] or ''), -6)
local now, clock, sign = string.sub(micros, 1, 13), string.sub(state, 2, 17), string.sub(state, 18, 18)
-- The place was kept, and the server's clock is later than that of the state.
local is_plain = inbox and #ends == 13 and ends > now and #micros == 16 and 'w' .. micros > state
  and clock > '15778368' and string.find(sign, '[-123]')
if not is_plain then
  return ARGV[7] .. ' ?'
end

if next_name then
  -- The place is written while the first claim is in the queue, so that both keys have an end.
  local function write_place()
    local asks = now + math.min(lease, math.floor(ARGV[4] / 3))
    local place = string.format('%.0f %.0f - %s %s', now + ARGV[4], asks, ARGV[5], now)
    if call('HSET', KEYS[4], next_name, place) == 1 then
      call('RPUSH', KEYS[3], next_name)
    end
    if call('PTTL', KEYS[3]) < tonumber(ARGV[4]) then
      call('PEXPIRE', KEYS[3], 2 * ARGV[4])
      call('PEXPIRE', KEYS[4], 2 * ARGV[4])
    end
  end
  if not pcall(write_place) then
    -- There is no memory, or this user may not write that.
    redis.pcall('HDEL', KEYS[4], next_name)
    redis.pcall('LREM', KEYS[3], 1, next_name)
    return ARGV[7] .. ' ?'
  end
end
-- A removal is not refused for want of memory, and neither are the writes after it. A name without a place is dropped,
-- and a place without a name would never be served.
call('HDEL', KEYS[4], name)
call('LPOP', KEYS[3])

-- Written in place, so that the server does not report a `set`; the mark stays.
local owner, waits = string.sub(name, 3), second or next_name
local listens = string.find(state, ' l', 35, true) and ' l' or ''
local flag = (waits or listens ~= '') and 'w' or ''
local after = flag .. micros .. '-' .. string.sub(owner, 1, 16) .. ' i' .. inbox .. listens
call('SET', KEYS[2], after, 'PX', lease + ARGV[2])
call('SETRANGE', KEYS[1], '0', owner)
call('PEXPIRE', KEYS[1], lease)
local last = (micros - 1577836800000000) * 4
local latest = (clock - 1577836800000000) * 4 - (tonumber(sign) or 0)
local range = string.format('%.0f %.0f', math.max(latest, last - math.min(count, 40000)) + 1, last)
local granted = 'granted ' .. owner .. ' ' .. range .. ' ' .. lease .. ' ' .. micros
if ARGV[8] then
  publish(inbox, 'value ' .. owner .. ' ' .. micros .. ' ' .. ARGV[8])
end
local heard = publish(inbox, granted .. (waits and ' 1 ' or ' 0 ') .. KEYS[1])
if not heard or heard == 0 then
  call('SETRANGE', KEYS[1], '0', ARGV[1])
  call('SET', KEYS[2], state, 'PX', lease + ARGV[2])
  -- The client has gone, or has not subscribed at this server yet, or this user may not publish.
  local function put_back()
    call('HSET', KEYS[4], name, places[1])
    call('LPUSH', KEYS[3], name)
    -- Both keys may have gone with the last name in them.
    call('PEXPIRE', KEYS[3], math.max(call('PTTL', KEYS[3]), lease))
    call('PEXPIRE', KEYS[4], math.max(call('PTTL', KEYS[4]), lease))
  end
  if not pcall(put_back) then
    redis.pcall('HDEL', KEYS[4], name)
    redis.pcall('LREM', KEYS[3], 1, name)
  end
  return ARGV[7] .. ' ?'
end
-- The turn of the second claim could come when that lease ends, if its holder stays silent.
local asks, their = string.match(second and places[2] or '', '^%d+ (%d+) %S+ %d+ %d+ (%x+)')
if asks and asks - now > tonumber(lease) then
  publish(their, 'next ' .. string.sub(second, 3) .. ' ' .. lease .. ' ' .. KEYS[1])
end
return next_name and ARGV[7] .. ' q ' .. lease .. ' ' .. micros or ARGV[7]
