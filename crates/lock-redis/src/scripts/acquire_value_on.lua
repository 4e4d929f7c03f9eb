end

local reply = acquire()
local told = string.sub(reply, #ARGV[5] + 2)
local begins = string.byte(told)
-- `?` or `b`: there is no grant.
if begins == 63 or begins == 98 then
  return reply
end
local cell = redis.pcall('GET', KEYS[3])
-- If the key holds something else, the client finds out when it loads the value.
if type(cell) == 'table' then
  return reply
end
return { ARGV[5], { told, cell } }
