-- From here on the lock is shared, or the first claim in the queue was not served.

local mode = ARGV[3] or 'x'
local name = mode .. ':' .. ARGV[1]
prune()

local held
if mode == 'x' then
  held = value == ARGV[1]
  if held then
    note_release() --terms
    vacate()
  end
else
  held = shared_until(name) ~= nil
  if held then
    unshare(name)
  end
end
local may_wait = not held and call('EXISTS', KEYS[3]) == 1
local was_first = may_wait and call('LINDEX', KEYS[3], 0) == name
local left = may_wait and leave(name)

-- Leaves the lock, for which claims wait, to foreign clients for a while. The first client in the queue asks after
-- that time; the second a little later, in case the first stays silent.
local function leave_gap()
  state.handed, state.left_until = nil, now + gap
  write_state(math.max(call('PTTL', KEYS[2]), gap + retention))
  for index, waiter in ipairs(call('LRANGE', KEYS[3], 0, 1)) do
    remind(waiter, call('HGET', KEYS[4], waiter), gap + 1000 * (index - 1))
  end
end

-- The lock is released even if the next claims cannot be served.
if held and mode == 'x' and is_gap_due() and call('EXISTS', KEYS[3]) == 1 then
  pcall(leave_gap)
else
  pcall(serve)
end
if was_first and (is_foreign() or gap_left()) then
  -- Another claim is now the first. Its client has to look for the end of the lease, as no message reports it.
  nudge(0)
end

-- Tells all listeners of the release. A message that this user may not send must not undo the release.
local function tell()
  if ARGV[2] == '' then
    return 0
  end
  local told = tonumber(redis.pcall('PUBLISH', ARGV[2], 'released'))
  state.listens = state.listens and told ~= 0
  return told or 0
end

local told = 0
if not value and (stale or left) then
  told = tell()
elseif held and mode == 's' then
  -- An upgrade in the queue was served. The client of an upgrade that is not in the queue has to ask again.
  local rest = is_shared() and call('HGET', KEYS[6], 'upgradable')
  if rest and is_alone(rest) and call('EXISTS', KEYS[3]) == 0 then
    redis.pcall('PUBLISH', ARGV[4] or ARGV[2], 'released')
  end
end
settle()
return held and told or -1
