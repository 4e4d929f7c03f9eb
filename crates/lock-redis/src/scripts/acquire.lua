-- From here on the lock is held, or waited for, or not to be held by one alone.

local owner, mode, from = ARGV[1], ARGV[5] or 'x', ARGV[7]
local name, lease, inbox = mode .. ':' .. owner, tonumber(ARGV[2]), ARGV[4]
local limit, place, claim = string.match(ARGV[6] or '', '^(%d+) (%d+) (%d+)$')
local source = from and from .. ':' .. owner or '-'

local function granted(range, left)
  settle()
  return table.concat({ range, left, call('EXISTS', KEYS[3]) == 1 and 'w' or 'q' }, ' ')
end

local function failed(problem)
  settle()
  return redis.error_reply(problem)
end

-- The tokens of the one that holds the lock alone, who hears on this channel from now on.
local function own_tokens()
  local fence = call('GET', KEYS[2]) or ''
  local range, more, before = string.match(fence, '^(%d+ %d+)(%+?%d*) ?(.*)$')
  if not range then
    return reserve(ARGV[3], lease, inbox)
  end
  if inbox ~= '' and inbox ~= before then
    call('SET', KEYS[2], range .. more .. ' ' .. inbox, 'PX', math.max(call('PTTL', KEYS[2]), lease + 3600000))
  end
  return range
end

-- How much is left of a lease of its own, which is extended if that is less than was asked for.
local function own_lease()
  local left = call('PTTL', KEYS[1])
  if left < lease then
    call('PEXPIRE', KEYS[1], lease)
  end
  return math.max(left, lease)
end

local more = prune()

-- Held already.
if mode == 'x' and value == owner then
  local left = own_lease()
  local range, problem = own_tokens()
  return range and granted(range, left) or failed(problem)
end
local ends = mode ~= 'x' and shared_until(name)
if ends then
  local range, before = string.match(call('HGET', KEYS[6], name) or '', '^(%d+ %d+) ?(.*)$')
  if not range then
    return failed('LOCKFENCE what was known of the lease has gone')
  end
  local left = math.max(ends - now, lease)
  local hears = inbox ~= '' and inbox or before
  share(name, left, hears == '' and range or range .. ' ' .. hears)
  return granted(range, left)
end

-- Converted to a weaker mode: at once, and with the same tokens.
if from == 'x' or (from == 'u' and mode == 's') then
  local left, record = lease
  if from == 'x' then
    if value ~= owner then
      return failed('LOCKOVER the lease to convert is over')
    end
    left = own_lease()
    local range, problem = own_tokens()
    if not range then
      return failed(problem)
    end
    record = inbox == '' and range or range .. ' ' .. inbox
    vacate()
  else
    ends = shared_until(source)
    record = ends and call('HGET', KEYS[6], source)
    if not record then
      return failed('LOCKOVER the lease to convert is over')
    end
    left = math.max(ends - now, lease)
    unshare(source)
  end
  share(name, left, record)
  serve()
  return granted(string.match(record, '^%d+ %d+'), left)
end

-- Converted to a stronger mode: as soon as nobody else shares the lock, before all who wait.
local problem
if from then
  ends = shared_until(source)
  if not ends then
    leave(name)
    serve()
    return failed('LOCKOVER the lease to convert is over')
  end
  if is_alone(source) then
    leave(name)
    local left = math.max(ends - now, lease)
    local range
    range, problem = reserve(ARGV[3], left, inbox)
    if not range then
      return failed(problem)
    end
    unshare(source)
    put(owner, left)
    return granted(range, left)
  end
else
  local _, of = permits(mode)
  local theirs = string.match(value or '', '^%*permits (%d+)')
  if of and theirs and of ~= theirs and not more then
    leave(name)
    return failed('LOCKPERMITS of ' .. of .. ' permits, but its holders know of ' .. theirs)
  end

  -- Who waits goes first, also before one for whom there would be room.
  if call('EXISTS', KEYS[3]) == 1 then
    local ask = { name = name, lease = lease, count = ARGV[3], inbox = inbox }
    local crowded
    crowded, problem = serve(ask)
    more = more or crowded
    if ask.range then
      return granted(ask.range, ask.left)
    elseif problem then
      return failed(problem)
    end
  end
  if call('EXISTS', KEYS[3]) == 0 and fits(mode) then
    local range
    range, problem = grant(name, lease, ARGV[3], inbox)
    return range and granted(range, lease) or failed(problem)
  end
end
settle()

-- When there may be room, if nobody renews or releases.
local left
local take, of = permits(mode)
if more then
  left = 1
elseif not value then
  -- The first in the queue has to ask.
  left = 1000
elseif from then
  left = 1
  local last = call('ZREVRANGE', KEYS[5], 0, 1, 'WITHSCORES')
  for index = 1, #last, 2 do
    if last[index] ~= source then
      left = math.max(left, last[index + 1] - now)
    end
  end
elseif take and value == marker(mode) then
  local missing = take + (call('HGET', KEYS[6], 'taken') or 0) - tonumber(of)
  local first = call('ZRANGE', KEYS[5], 0, BOUND - 1, 'WITHSCORES')
  for index = 1, #first, 2 do
    missing = missing - permits(mode_of(first[index]))
    left = math.max(1, first[index + 1] - now)
    if missing <= 0 then
      break
    end
  end
end
left = left or call('PTTL', KEYS[1])

if not limit or inbox == '' then
  return left
end
local is_first
is_first, problem = join(name, source, tonumber(limit), tonumber(place), claim, ARGV[3], inbox)
if problem then
  return redis.error_reply(problem)
end
if is_first then
  call_for_it()
end
return table.concat({ 'q', left, micros }, ' ')
