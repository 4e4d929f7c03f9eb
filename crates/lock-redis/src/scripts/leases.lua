-- The holders of the lock.
--
-- Shared leases count only while the lock has their marker: a client that deletes or overwrites that key ends
-- every lease. Full scripts write the lock in place, so the server reports no `set` event.

-- The most expired holders or places that one call clears away.
local BOUND = 32
-- Whether the first claim in the queue wants permits, but this call does not know their number.
local blind = false
-- The record of the number of permits, as read.
local known_limit

local function mode_of(name)
  return string.match(name, '^[^:]+'), string.match(name, '[^:]+$')
end

-- How many permits a mode takes, and out of how many; nothing for other modes.
local function permits(mode)
  local take, of = string.match(mode, '^p(%d+)/(%d+)$')
  return tonumber(take), of
end

-- The value of the lock while it is shared in this mode; nothing for an exclusive mode.
local function marker(mode)
  local group = string.match(mode, '^j(%x+)$')
  if group then
    return string.sub('*' .. group, 1, 32)
  end
  local _, of = permits(mode)
  return mode ~= 'x' and string.format('%-32s', of and '*permits ' .. of or '*shared') or nil
end

-- Whether the lock is shared in this mode. Permits are permits, whatever number their users declare.
local function is_shared_in(mode)
  return value == marker(mode) or value and permits(mode) and string.match(value, '^%*permits %d+ *$') ~= nil
end

local function is_joint()
  return value and #value == 32 and string.match(value, '^%*%x+$')
end

local function is_shared()
  return value and (value == marker('s') or string.match(value, '^%*permits %d+ *$') or is_joint())
end

-- Which numbers of permits were declared, how many permits there are, and whether the semaphore is closed. If there is
-- no record, nothing; or the numbers that the marker gives, without the last answer.
local function known_permits()
  if known_limit == nil then
    known_limit = KEYS[7] and call('GET', KEYS[7])
  end
  if known_limit then
    local declared, limit, state = string.match(known_limit, '^([%d,]+) (%d+) (%l+)$')
    return declared or '?', tonumber(limit), state == 'closed'
  end
  local declared = string.match(value or '', '^%*permits (%d+)')
  return declared, tonumber(declared)
end

-- Whether this number is among those that were declared.
local function was_declared(declared, of)
  return string.find(',' .. declared .. ',', ',' .. of .. ',', 1, true) ~= nil
end

-- How many permits are held.
local function taken_permits()
  return tonumber(value and call('HGET', KEYS[6], 'taken') or 0)
end

-- Gives the key back what it had before this call wrote the lock: another text, or nothing.
local function put_back_lock(before)
  if before then
    redis.pcall('SETRANGE', KEYS[1], 0, before)
  else
    redis.pcall('DEL', KEYS[1])
  end
end

-- Writes the lock, which is free or held by this client. A write in place keeps the mark of the previous value:
-- a client may rely on that mark. If a write is refused, the lock is as before.
local function put(text, lease)
  local before = value or stale
  marked = before ~= nil
  call('SETRANGE', KEYS[1], 0, marked and text .. 'w' or text)
  local expires = redis.pcall('PEXPIRE', KEYS[1], lease)
  if expires ~= 1 then
    -- A key that has ended by now has no end any more.
    put_back_lock(expires ~= 0 and before)
    error(expires)
  end
  value, stale = text, nil
end

-- The end of this sharer's lease, in ms; nothing if it is over.
local function shared_until(name)
  local ends = is_shared() and tonumber(call('ZSCORE', KEYS[5], name) or nil)
  return ends and ends > now and ends or nil
end

-- The end of the last sharer's lease, in ms; nothing if there is no sharer.
local function last_end()
  return call('ZREVRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
end

-- Extends the lock and its satellites to this end of the last sharer's lease. If the leases of all sharers that are left
-- are over, the lock lives for another second, so that the next calls remove these sharers.
local function keep_shared(last)
  local rest = last - now
  rest = rest > 0 and rest or 1000
  call('PEXPIRE', KEYS[1], rest)
  call('PEXPIRE', KEYS[5], rest + 1000)
  call('PEXPIRE', KEYS[6], rest + 1000)
end

-- Removes a sharer whose permits count, or that alone may be upgraded. If a write is refused, the sharer stays.
local function uncount(name, mode, take)
  -- If the record of this sharer has gone, there is nothing to subtract.
  local record = call('HGET', KEYS[6], name)
  local is_subtracted = false
  local function take_out()
    -- A removal is not refused for want of memory, and neither are the writes after it.
    call('HDEL', KEYS[6], name, record and mode == 'u' and 'upgradable' or name)
    if record and take then
      -- Not `-take`, which would be written as -0 for 0.
      call('HINCRBY', KEYS[6], 'taken', 0 - take)
      is_subtracted = true
    end
    call('ZREM', KEYS[5], name)
  end
  local ok, problem = pcall(take_out)
  if ok then
    return
  elseif record then
    redis.pcall('HSET', KEYS[6], name, record)
    if mode == 'u' then
      redis.pcall('HSET', KEYS[6], 'upgradable', name)
    elseif is_subtracted then
      redis.pcall('HINCRBY', KEYS[6], 'taken', take)
    end
  end
  error(problem, 0)
end

-- Removes a sharer, and vacates the lock after the last.
local function unshare(name)
  local mode = mode_of(name)
  local take = permits(mode)
  if take or mode == 'u' then
    uncount(name, mode, take)
  elseif call('ZREM', KEYS[5], name) == 0 then
    return
  else
    -- A record without its sharer counts no more.
    redis.pcall('HDEL', KEYS[6], name)
  end
  local last = last_end()
  if last then
    keep_shared(last)
  else
    -- What stays behind counts no more, and has an end.
    redis.pcall('DEL', KEYS[6])
    vacate()
  end
end

-- Whether the sharer that was noted last is new.
local is_new

-- Notes a sharer, or its longer lease, in the satellites of the lock.
local function note_sharer(name, lease, record)
  is_new = false
  is_new = call('ZADD', KEYS[5], now + lease, name) == 1
  call('HSET', KEYS[6], name, record)
  if is_new then
    local mode = mode_of(name)
    local take = permits(mode)
    if mode == 'u' then
      call('HSET', KEYS[6], 'upgradable', name)
    elseif take then
      call('HINCRBY', KEYS[6], 'taken', take)
    end
  end
  keep_shared(last_end())
end

-- Adds a sharer, or extends its lease. `record` is its tokens and its inbox. If a write is refused, a new sharer is not
-- added, and a lock that became shared for it is as before.
local function share(name, lease, record)
  note_lease(lease) --terms
  local before, rest = stale, (value or stale) and call('PTTL', KEYS[1]) or 0
  -- This write is not refused for want of memory, and neither are the writes after it. It cuts no lease of another
  -- sharer. If the last lease ends during this call, the lock may be gone: the server deletes a key at once whose new
  -- end is over.
  local is_first = not value or call('PEXPIRE', KEYS[1], math.max(rest, lease)) ~= 1
  if is_first then
    call('DEL', KEYS[5], KEYS[6])
    put(marker(mode_of(name)), lease)
  end
  local ok, problem = pcall(note_sharer, name, lease, record)
  if ok then
    return
  elseif is_first then
    redis.pcall('DEL', KEYS[5], KEYS[6])
    put_back_lock(before)
    if before and rest > 0 then
      redis.pcall('PEXPIRE', KEYS[1], rest)
    end
    value, stale = nil, before
  elseif is_new then
    pcall(unshare, name)
  end
  error(problem, 0)
end

-- Removes sharers whose leases are over. Returns whether there may be more of them.
local function prune()
  if not is_shared() then
    return false
  end
  local over = call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, BOUND)
  for _, name in ipairs(over) do
    unshare(name)
  end
  return #over == BOUND
end

--<terms
-- For how many ms no lease is granted in this mode: leases of another term may live that this server does not know.
-- Every lease of that term goes with a claim of the mode or the group in which the lock is shared.
local function kept_back(mode)
  local is_beside = value and value == marker(mode) and mode ~= 'u' and not permits(mode)
  return state.term and not is_beside and (not value or is_shared()) and left_of_other_terms() or nil
end
--terms>

-- Whether there is room for one more claim in this mode.
local function fits(mode)
  --<terms
  if kept_back(mode) then
    return false
  end
  --terms>
  if value and (not is_shared_in(mode) or call('EXISTS', KEYS[6]) == 0) then
    return false
  end
  local take, of = permits(mode)
  if not take then
    return mode ~= 'u' or not value or not call('HGET', KEYS[6], 'upgradable')
  elseif not KEYS[7] then
    blind = true
    return false
  end
  local declared, limit, closed = known_permits()
  return declared and was_declared(declared, of) and not closed and take + taken_permits() <= limit
end

-- Whether this sharer is the only one.
local function is_alone(name)
  if kept_back('x') then return false end --terms
  return shared_until(name) and call('ZCARD', KEYS[5]) == 1
end

-- The tokens of the group that holds the lock.
local function group_tokens()
  local member = call('ZREVRANGE', KEYS[5], 0, 0)[1]
  local range = string.match(member and call('HGET', KEYS[6], member) or '', '^%d+ %d+')
  return range, not range and 'LOCKFENCE what was known of the group has gone' or nil
end

-- Writes the lock for an owner that holds it alone from now on. The owner may have been its only sharer.
local function put_alone(owner, lease)
  local was_shared = is_shared()
  put(owner, lease)
  if was_shared then
    -- What stays behind counts no more, and has an end.
    redis.pcall('DEL', KEYS[5], KEYS[6])
  end
end

-- Grants a lease that fits. Returns the tokens as "first last", or nothing and the reason.
local function grant(name, lease, count, inbox)
  local mode, owner = mode_of(name)
  if mode == 'x' then
    local range, problem = reserve(count, lease, owner, inbox)
    if range then
      put_alone(owner, lease)
    end
    return range, problem
  end
  local range, problem
  if is_joint() then
    range, problem = group_tokens()
  else
    range, problem = reserve(count, lease, owner, '')
  end
  if range then
    share(name, lease, inbox == '' and range or range .. ' ' .. inbox)
  end
  return range, problem
end

