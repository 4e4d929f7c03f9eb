local mode = ARGV[2]
local name = mode .. ':' .. ARGV[1]
prune()

local held = shared_until(name) ~= nil
if held then
  local declared, limit, closed = known_permits()
  -- This write is not refused for want of memory, and neither are the writes after it.
  unshare(name)
  remember_permits(declared, math.max(limit - permits(mode), 0), closed, 0)
else
  leave(name)
end

-- The lease is over even if the next claims cannot be served.
pcall(serve)
settle()
return held and 0 or -1
