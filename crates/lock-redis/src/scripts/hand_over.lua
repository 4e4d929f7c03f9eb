-- Held by one owner alone, and the first claim in the queue wants it alone too: this is all that happens where
-- processes contend. What is out of the ordinary is left to what follows, as if nothing had been done: a lock that
-- is given to a client that has gone is still the releasing owner's to give.
local queued

-- Gives the releasing client its new place, at the end of the queue, which cannot be longer than before.
local function requeue(first, lease)
  local _, stay, claim = string.match(ARGV[5] or '', '^(%d+) (%d+) (%d+)$')
  local name = stay and 'x:' .. ARGV[4]
  if name and name ~= first then
    local place = place_until(stay, tonumber(lease), '-', claim, ARGV[6], ARGV[7])
    if call('HSET', KEYS[4], name, place) == 1 then
      call('RPUSH', KEYS[3], name)
    end
    keep_queue(stay)
    queued = 'q ' .. lease .. ' ' .. micros
  end
end

-- Grants the lock to the claim, in place, and tells its client. Returns how many heard it, if that is allowed.
local function give(name, lease, count, inbox, wanted)
  local owner = string.sub(name, 3)
  local range = reserve(count, lease, owner, inbox)
  if range then
    call('SETRANGE', KEYS[1], 0, owner .. 'w')
    call('PEXPIRE', KEYS[1], lease)
    return tell_of_grant(name, inbox, range, lease, wanted)
  end
end

local function pass_on()
  local names = call('LRANGE', KEYS[3], 0, 1)
  local name, second = names[1], names[2]
  if not name or string.byte(name) ~= 120 then
    return false
  end
  local places = call('HMGET', KEYS[4], name, second or name)
  local ends, _, from, lease, count, inbox = read_place(places[1])
  if from ~= '-' or tonumber(ends) <= now then
    return false
  end
  -- What takes away is not refused for want of memory, and then nor is what follows.
  call('LPOP', KEYS[3])
  call('HDEL', KEYS[4], name)
  requeue(name, lease)
  state.is_flagged = (second or queued or state.listens) and true or false
  local heard = give(name, lease, count, inbox, second or queued)
  if not heard then
    call('LPUSH', KEYS[3], name)
    call('HSET', KEYS[4], name, places[1])
    -- Both keys may have gone with the last name.
    keep_queue(math.ceil(ends - now))
  elseif heard > 0 and second then
    remind(second, places[2], lease)
  end
  return heard and heard > 0
end

if value == ARGV[1] and (ARGV[3] or 'x') == 'x' and not is_gap_due() then
  local ok, passed = pcall(pass_on)
  if ok and passed then
    return queued or 0
  end
end
