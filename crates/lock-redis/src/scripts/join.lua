-- How a claim gets its place in the queue.

-- Makes room in a full queue: drops places that have expired, and places whose clients have gone. Returns the number
-- of claims left.
local function make_room(length, limit)
  for _ = 1, BOUND do
    local head = length >= limit and call('LINDEX', KEYS[3], 0)
    if not head then
      break
    end
    local ends, _, _, _, inbox = place_of(head)
    if ends and ends > now and (tell_next(head, inbox, 0) ~= 0 or not is_of_this_term(inbox)) then
      break
    end
    leave(head)
    length = length - 1
  end
  return length
end

-- Writes a place that is kept for so many ms.
local function write_place(name, place, stay, is_only)
  if is_only then
    -- These places belong to a list that has gone.
    call('DEL', KEYS[4])
  end
  call('HSET', KEYS[4], name, place)
  call('PEXPIRE', KEYS[3], math.max(call('PTTL', KEYS[3]), 2 * stay))
  call('PEXPIRE', KEYS[4], call('PTTL', KEYS[3]))
end

-- Keeps the place of the name, or gives it one: behind all others, or, for a conversion, before them. The
-- client asks again when the present lease ends in `left` ms, or earlier. Returns whether the name is now the
-- only one, or nothing and the reason. If a write is refused, a new name is not in the queue.
local function join(name, from, left, limit, stay, claim, count, inbox)
  local length = call('LLEN', KEYS[3])
  local known, before, _, _, _, _, joined = place_of(name)
  known = known and length > 0
  if known and before ~= from then
    leave(name)
    known, length = false, length - 1
  end
  joined = known and joined or now

  if known then
    -- This write is not refused for want of memory, and neither are the writes after it.
    call('PEXPIRE', KEYS[3], math.max(call('PTTL', KEYS[3]), 2 * stay))
  else
    length = make_room(length, limit)
    if length >= limit then
      return nil, 'LOCKQUEUE ' .. length .. ' wait for the key already'
    end
    call(from == '-' and 'RPUSH' or 'LPUSH', KEYS[3], name)
  end
  local place, is_only = place_until(stay, left, from, claim, count, inbox, joined), not known and length == 0
  local ok, problem = pcall(write_place, name, place, stay, is_only)
  if not ok then
    if not known then
      pcall(leave, name)
    end
    error(problem, 0)
  end
  return is_only
end

-- Tells the client of every holder, if it hears, that a claim waits.
local function call_for_it()
  local inboxes = { is_ours() and state.inbox }
  if is_shared() then
    -- At most as many as one call may tell. The others hear of it when they renew.
    local names = call('ZREVRANGE', KEYS[5], 0, BOUND - 1)
    for index, record in ipairs(#names > 0 and call('HMGET', KEYS[6], unpack(names)) or {}) do
      inboxes[index] = string.match(record or '', '^%d+ %d+ (%x+)$')
    end
  end
  local told = {}
  for _, inbox in pairs(inboxes) do
    if inbox and not told[inbox] then
      told[inbox] = true
      publish(inbox, 'wanted ' .. KEYS[1])
    end
  end
end

