end

local reply = term and hand_over() or ARGV[7] .. ' ?'
if reply == ARGV[7] .. ' ?' then
  return reply
end
local state = redis.pcall('GET', KEYS[2])
-- The fields begin here, and with the one that names the term.
local at = type(state) == 'string' and string.byte(state) == 119 and 35 or 34
local left = redis.call('PTTL', KEYS[1])
if type(state) ~= 'string' then
  return reply
elseif left < 0 then
  if string.sub(state, at, at + 1) == ' t' then
    redis.pcall('SETRANGE', KEYS[2], at, 'r')
  end
  return reply
end
local field = string.format(' t%s.%.0f', term, left + 1)
local text = string.sub(state, 1, at - 1) .. field .. string.sub(state, at)
redis.call('SET', KEYS[2], text, 'PX', redis.call('PTTL', KEYS[2]))
return reply
