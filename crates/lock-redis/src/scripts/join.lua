-- How a request gets its place in the queue.

-- Makes the name keep its place, or gives it one: behind all others, or, for a conversion, before them.
-- Returns whether it is the first that waits, or nothing and why not.
local function join(name, from, limit, place, claim, count, inbox)
  local length = call('LLEN', KEYS[3])
  local known, before = place_of(name)
  known = known and length > 0
  if known and before ~= from then
    leave(name)
    known, length = false, length - 1
  end

  if known then
    -- Not refused for want of memory, and then nor is what follows.
    call('PEXPIRE', KEYS[3], math.max(call('PTTL', KEYS[3]), 2 * place))
  else
    for _ = 1, BOUND do
      local head = length >= limit and call('LINDEX', KEYS[3], 0)
      if not head or (place_of(head) or 0) > now then
        break
      end
      leave(head)
      length = length - 1
    end
    if length >= limit then
      return nil, 'LOCKQUEUE ' .. length .. ' wait for the key already'
    end
    call(from == '-' and 'RPUSH' or 'LPUSH', KEYS[3], name)
    call('PEXPIRE', KEYS[3], math.max(call('PTTL', KEYS[3]), 2 * place))
    if length == 0 then
      -- What is left there belongs to a list that has gone.
      call('DEL', KEYS[4])
    end
  end
  call('HSET', KEYS[4], name, place_until(micros, place, from, claim, count, inbox))
  call('PEXPIRE', KEYS[4], call('PTTL', KEYS[3]))
  return not known and length == 0
end

-- Tells every client that holds the lock, and hears, that somebody waits.
local function call_for_it()
  local records = { call('GET', KEYS[2]) }
  if is_shared() then
    -- As many as one call may. The others hear of it when they renew.
    local names = call('ZREVRANGE', KEYS[5], 0, BOUND - 1)
    records = #names > 0 and call('HMGET', KEYS[6], unpack(names)) or {}
  end
  local told = {}
  for _, record in ipairs(records) do
    local inbox = string.match(record or '', '^%d+ %d+%+?%d* (.+)$')
    if inbox and not told[inbox] then
      told[inbox] = true
      redis.pcall('PUBLISH', inbox, 'wanted ' .. KEYS[1])
    end
  end
end

