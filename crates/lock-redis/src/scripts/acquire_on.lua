local owner, mode, from = ARGV[1], ARGV[5] or 'x', ARGV[7]
local name, lease, inbox = mode .. ':' .. owner, tonumber(ARGV[2]), ARGV[4]
local source = from and from .. ':' .. owner or '-'

-- The reply to a request that is granted. A failure from here on does not take the grant back. If it is not known whether
-- claims wait, the reply says that they do.
local function granted(range, left)
  local _, waits = pcall(settle)
  if KEYS[7] then
    pcall(use_permits, lease)
  end
  return string.format('%s %.0f %s', range, left, waits and 'w' or 'q')
end

local function failed(problem)
  settle()
  return redis.error_reply(problem)
end

-- The state is unusable. A claim could wait beside it, but would wait for ever.
if state.problem then
  return redis.error_reply(state.problem)
end
left_of_other_terms() --terms: their time is counted from the first look on.
local more = prune()

-- Held already, together with other owners.
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

-- Converted from one shared mode to a weaker one: granted at once, with the tokens that the lease
-- has.
if from and from ~= 'x' and mode ~= 'x' then
  ends = shared_until(source)
  local record = ends and call('HGET', KEYS[6], source)
  if not record then
    return failed('LOCKOVER the lease to convert is over')
  end
  local left = math.max(ends - now, lease)
  share(name, left, record)
  -- The lease is converted even if the rest cannot be done.
  pcall(unshare, source)
  pcall(serve)
  return granted(string.match(record, '^%d+ %d+'), left)
end

