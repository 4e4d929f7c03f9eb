-- The waiting claims. A name is in the list if and only if it has a place in the hash, as long as both keys
-- live.

-- Gives up the place of a name. Returns whether it had one.
local function leave(name)
  -- In this order: a name without a place is dropped, and a place without a name would never be served.
  return call('HDEL', KEYS[4], name) + call('LREM', KEYS[3], 1, name) > 0
end

local function place_of(name)
  local place = call('HGET', KEYS[4], name)
  local ends, _, from, claim, tokens, inbox, joined = read_place(place)
  return tonumber(ends), from, tonumber(claim), tokens, inbox, place, tonumber(joined)
end

-- Whether a lease that is to be converted is over.
local function is_orphan(from)
  return from ~= '-' and not shared_until(from)
end

-- The name whose turn it is: a member of the group that holds the lock, wherever it is in the queue, or
-- otherwise the first name.
local function whose_turn()
  if is_joint() then
    for _, name in ipairs(redis.pcall('LRANGE', KEYS[3], 0, BOUND - 1)) do
      if marker(mode_of(name)) == value then
        return name
      end
    end
  end
  return call('LINDEX', KEYS[3], 0)
end

-- Takes the next claim from the queue that there is room for. Drops places that were not kept on the way.
local function next_in_line(asker, steps)
  while steps > 0 do
    local name = whose_turn()
    if not name then
      return nil, steps
    end
    local ends, from, claim, tokens, inbox, place = place_of(name)
    local is_dead = not ends or is_orphan(from) or (ends <= now and name ~= asker)
    if not is_dead then
      local room
      if from == '-' then
        room = fits(mode_of(name))
      else
        room = is_alone(from)
      end
      if not room then
        return nil, steps
      end
    end
    steps = steps - 1
    -- A removal is not refused for want of memory, and neither are the writes after it.
    leave(name)
    if not is_dead then
      local slot = { name = name, from = from, lease = claim, count = tokens, inbox = inbox }
      slot.place = place
      return slot, steps
    end
  end
  return nil, steps
end

-- Grants the lock to a claim that was taken from the queue.
local function hand_over(slot)
  if slot.from ~= '-' then
    -- The lease takes the other mode, and gets no shorter.
    slot.left = shared_until(slot.from) - now
    slot.record = call('HGET', KEYS[6], slot.from)
    slot.lease = math.max(slot.lease, slot.left)
  end
  slot.range, slot.problem = grant(slot.name, slot.lease, slot.count, slot.inbox)
  return slot.range
end

-- Takes back the grant of a claim, if there was one.
local function take_back(slot)
  if not slot.range then
    return
  elseif mode_of(slot.name) ~= 'x' then
    return unshare(slot.name)
  end
  vacate()
  if slot.record then
    local ok, problem = pcall(share, slot.from, slot.left, slot.record)
    if not ok then
      -- The owner keeps the lock alone, until that lease ends.
      value, stale = stale, nil
      error(problem, 0)
    end
  end
end

-- Puts a claim back at the head of the queue. If this user may not do that, the client has to ask for another place.
local function put_back(slot)
  local function write()
    call('HSET', KEYS[4], slot.name, slot.place)
    call('LPUSH', KEYS[3], slot.name)
    -- Both keys may have gone with the last name in them.
    local ends = place_of(slot.name)
    local rest = math.max(call('PTTL', KEYS[3]), 2 * (ends - now), 1)
    call('PEXPIRE', KEYS[3], rest)
    call('PEXPIRE', KEYS[4], rest)
  end
  if not pcall(write) then
    pcall(leave, slot.name)
  end
end

-- Makes the first claim in the queue ask in this many ms, unless it asks earlier anyway. With 0 its request
-- does what one call could not do. With the time of the lease that was granted before it, it asks in case the
-- holder stays silent.
local function nudge(after)
  local name = call('LINDEX', KEYS[3], 0)
  if name then
    remind(name, call('HGET', KEYS[4], name), after)
  end
end

-- Hands the lock to the claims at the head of the queue, as long as there is room for the first, and tells
-- their clients. A claim is passed over if its client subscribed in this term and does not hear. The claim that asks
-- gets no message: it is granted on the terms of `ask`, and the tokens are in its `range`.
--
-- Returns whether there may be more to do than one call does, and the error, if there was one.
local function serve(ask)
  if gap_left() then
    return false
  end
  local steps, slot, lease = BOUND
  repeat
    local told, again = {}, false
    repeat
      slot, steps = next_in_line(ask and ask.name, steps)
      if slot then
        if ask and slot.name == ask.name then
          slot.lease, slot.count, slot.inbox = ask.lease, ask.count, ask.inbox
        end
        local ok, done = pcall(hand_over, slot)
        if not ok then
          -- The claim that asks learns of the error. Another claim keeps its place.
          if not (ask and slot.name == ask.name) then
            put_back(slot)
          end
          error(done, 0)
        elseif not done then
          put_back(slot)
          return false, slot.problem
        elseif ask and slot.name == ask.name then
          ask.range, ask.left = slot.range, slot.lease
        else
          told[#told + 1] = slot
        end
      end
    until not slot

    local wanted = call('EXISTS', KEYS[3]) == 1
    for index, waiter in ipairs(told) do
      local heard = tell_of_grant(waiter.name, waiter.inbox, waiter.range, waiter.lease, wanted)
      if not heard then
        -- This user may not publish. No client in the queue can be told, so each has to ask.
        for last = #told, index, -1 do
          take_back(told[last])
          put_back(told[last])
        end
        return false
      elseif heard == 0 and is_of_this_term(waiter.inbox) then
        take_back(waiter)
        again = true
      else
        -- The client has heard, or may not have subscribed at this server yet. Then it asks, or the short lease ends.
        lease = waiter.lease
      end
    end
  until not again or steps == 0
  if steps == 0 or blind then
    nudge(0)
  elseif lease then
    nudge(lease)
  end
  return steps == 0
end

