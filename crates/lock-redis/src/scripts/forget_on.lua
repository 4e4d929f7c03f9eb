local mode = ARGV[2]
local name = mode .. ':' .. ARGV[1]
prune()

local ends = shared_until(name)
if ends then
  local declared, limit, closed = known_permits()
  local record = call('HGET', KEYS[6], name)
  -- A user that may not read this changes nothing.
  last_end()
  -- This write is not refused for want of memory, and neither are the writes after it.
  unshare(name)
  local ok, problem = pcall(remember_permits, declared, math.max(limit - permits(mode), 0), closed, 0)
  if not ok then
    share(name, ends - now, record)
    error(problem, 0)
  end
else
  leave(name)
end

-- The lease is over even if the next claims cannot be served.
pcall(serve)
pcall(settle)
return ends and 0 or -1
