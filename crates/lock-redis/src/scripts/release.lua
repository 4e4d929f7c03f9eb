-- From here on somebody waits, or the lock is shared.

local mode = ARGV[3] or 'x'
local name = mode .. ':' .. ARGV[1]
prune()

local held
if mode == 'x' then
  held = value == ARGV[1]
  if held then
    vacate()
  end
else
  held = shared_until(name) ~= nil
  if held then
    unshare(name)
  end
end
local left = not held and leave(name)

-- Whatever prevents others from being served, the lock is released.
pcall(serve)
local is_free = stale
settle()
local told = 0
if not value and (is_free or left) then
  told = tell()
elseif held and mode == 's' then
  -- An upgrade in the queue was served. One that stands in none can only ask again.
  local rest = is_shared() and call('HGET', KEYS[6], 'upgradable')
  if rest and is_alone(rest) and call('EXISTS', KEYS[3]) == 0 then
    redis.pcall('PUBLISH', ARGV[4] or ARGV[2], 'released')
  end
end
return queued or held and told or -1
