local mode = ARGV[3] or 'x'
local held
if mode == 'x' then
  held = value == ARGV[1]
else
  held = shared_until(mode .. ':' .. ARGV[1])
end
local range, more, hears = string.match(held and call('GET', KEYS[2]) or '', '^(%d+ %d+)%+?(%d*)(.*)$')
if not range then
  return 0
end
local latest = tonumber(more ~= '' and more or string.match(range, '%d+$'))
local token = tonumber(ARGV[2])
if latest > token then
  return 0
elseif latest < token then
  local ahead = math.ceil(token / 4000 - (now - 1577836800000))
  local keep = math.max(call('PTTL', KEYS[2]), call('PTTL', KEYS[1]) + 3600000 + math.max(0, ahead))
  call('SET', KEYS[2], string.format('%s+%.0f%s', range, token, hears), 'PX', keep)
end
return 1
