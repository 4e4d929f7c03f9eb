local PER_LOCK = 4
local locks = {}
for first = 1, #ALL, PER_LOCK do
  locks[#locks + 1] = { first = first }
end

-- Makes the other parts work on this lock.
local function turn_to(lock)
  local first = lock.first
  for key = 1, PER_LOCK do
    KEYS[key] = ALL[first + key - 1]
  end
  if lock.state then
    value, marked, state = lock.value, lock.marked, lock.state
  else
    read_lock()
    read_state()
    lock.value, lock.marked, lock.state = value, marked, state
  end
  return ARGV[first], tonumber(ARGV[first + 1]), ARGV[first + 2], ARGV[first + 3]
end

-- Whether a claim waits for a lock that is free. Then its client hears that it may ask. Drops places that were not
-- kept, or whose clients hear nothing, a few tens at a time.
local function is_wanted()
  for _ = 1, 32 do
    local head = call('LINDEX', KEYS[3], 0)
    if not head then
      return false
    end
    local ends, _, _, _, _, inbox = read_place(call('HGET', KEYS[4], head))
    if ends and tonumber(ends) > now and tell_next(head, inbox, 0) ~= 0 then
      return true
    end
    call('HDEL', KEYS[4], head)
    call('LPOP', KEYS[3])
  end
  return true
end

local refused = false
for _, lock in ipairs(locks) do
  local owner = turn_to(lock)
  if state.problem then
    return redis.error_reply(state.problem)
  end
  lock.held = value == owner
  lock.left = -1
  if value and not lock.held then
    lock.left, refused = call('PTTL', KEYS[1]), true
  --<terms
  elseif not value and left_of_other_terms() then
    lock.left, refused = left_of_other_terms(), true
  --terms>
  elseif not value and is_wanted() then
    -- The client of the first claim in the queue has to ask.
    lock.left, refused = 1000, true
  end
end
if refused then
  local left = {}
  for index, lock in ipairs(locks) do
    left[index] = lock.left
    --<terms
    turn_to(lock)
    if state.is_changed then
      write_state(math.max(call('PTTL', KEYS[2]), retention + 2 * state.lease))
    end
    --terms>
  end
  return left
end

-- The states are written first: without memory, or without a right, these writes fail, and no owner holds locks that
-- were half granted.
local granted = {}
for index, lock in ipairs(locks) do
  local owner, lease, count, inbox = turn_to(lock)
  local range, problem
  local token = lock.held and own_token()
  if token then
    note_lease(lease) --terms
    range = string.format('%.0f %.0f', token, token)
  else
    range, problem = reserve(count, lease, owner, inbox)
    if not range then
      return redis.error_reply(problem)
    end
  end
  granted[index] = range
end

for index, lock in ipairs(locks) do
  local owner, lease = turn_to(lock)
  local left = lock.held and call('PTTL', KEYS[1]) or -1
  if not lock.held then
    call('SETRANGE', KEYS[1], 0, owner)
  end
  local expires = left >= lease and 1 or redis.pcall('PEXPIRE', KEYS[1], lease)
  if expires ~= 1 then
    -- If this user may not set when a lock ends, it must not have a lock that never ends.
    for before = index, 1, -1 do
      turn_to(locks[before])
      if not locks[before].held then
        call('DEL', KEYS[1])
      end
    end
    return expires
  end
  value = owner
  local _, waits = pcall(settle)
  if lock.held then
    granted[index] = string.format('%s %.0f %s', granted[index], math.max(left, lease), waits and 'w' or 'q')
  end
end
return granted
