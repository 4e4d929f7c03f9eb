local PER_LOCK = 4
local locks = {}
for first = 1, #ALL, PER_LOCK do
  locks[#locks + 1] = { first = first }
end

local function look_at(lock)
  local first = lock.first
  for key = 1, PER_LOCK do
    KEYS[key] = ALL[first + key - 1]
  end
  return ARGV[first], tonumber(ARGV[first + 1]), ARGV[first + 2], ARGV[first + 3]
end

-- Whether anybody waits for a lock that is free, who is told to ask then. Places that were not kept, or
-- whose client hears nothing, are dropped, a few tens at a time.
local function is_wanted(now)
  for _ = 1, 32 do
    local head = call('LINDEX', KEYS[3], 0)
    if not head then
      return false
    end
    local ends, inbox = string.match(call('HGET', KEYS[4], head) or '', '^(%d+) %S+ %d+ %d+ (.*)$')
    if ends and tonumber(ends) > now then
      local ask = 'ask ' .. string.match(head, '[^:]+$') .. ' ' .. KEYS[1]
      if redis.pcall('PUBLISH', inbox, ask) ~= 0 then
        return true
      end
    end
    call('LPOP', KEYS[3])
    call('HDEL', KEYS[4], head)
  end
  return true
end

local micros, time = clock()
local refused = false
for index, lock in ipairs(locks) do
  local owner = look_at(lock)
  local value = call('GET', KEYS[1])
  lock.held = value == owner
  lock.left = -1
  if value and not lock.held then
    lock.left, refused = call('PTTL', KEYS[1]), true
  elseif not value and is_wanted(micros / 1000) then
    -- The first in the queue has to ask.
    lock.left, refused = 1000, true
  end
end
if refused then
  local left = {}
  for index, lock in ipairs(locks) do
    left[index] = lock.left
  end
  return left
end

-- The fences come first: where there is no memory, or no right, these are the writes that fail, and
-- nobody holds locks that were half granted.
local granted = {}
for index, lock in ipairs(locks) do
  local _, lease, count, inbox = look_at(lock)
  local range = lock.held and string.match(call('GET', KEYS[2]) or '', '^%d+ %d+')
  if not range then
    local problem
    range, problem = reserve(count, lease, inbox, false, time)
    if not range then
      return redis.error_reply(problem)
    end
  end
  granted[index] = range
end

for index, lock in ipairs(locks) do
  local owner, lease = look_at(lock)
  local left = lock.held and call('PTTL', KEYS[1]) or -1
  if not lock.held then
    call('SETRANGE', KEYS[1], 0, owner)
  end
  local expires = left >= lease and 1 or redis.pcall('PEXPIRE', KEYS[1], lease)
  if expires ~= 1 then
    -- A user who may not say when a lock ends shall not have one that never does.
    for before = index, 1, -1 do
      look_at(locks[before])
      if not locks[before].held then
        call('DEL', KEYS[1])
      end
    end
    return expires
  end
  if lock.held then
    local demand = call('EXISTS', KEYS[3]) == 1 and 'w' or 'q'
    granted[index] = table.concat({ granted[index], math.max(left, lease), demand }, ' ')
  end
end
return granted
