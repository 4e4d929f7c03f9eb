local mode = ARGV[2]
local name = mode .. ':' .. ARGV[1]
prune()

local held = shared_until(name) ~= nil
if held then
  local declared, limit, closed = known_permits()
  -- Not refused for want of memory, and then nor is what follows.
  unshare(name)
  remember_permits(declared, math.max(limit - permits(mode), 0), closed, 0)
else
  leave(name)
end

-- Whatever prevents others from being served, the lease is over.
pcall(serve)
settle()
return held and 0 or -1
