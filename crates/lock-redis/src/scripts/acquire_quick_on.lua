if is_later() then
  return ARGV[5] .. ' ?'
end
local value = redis.pcall('GETRANGE', KEYS[1], '0', '33')
if value.err or value == '' or string.byte(value) == 42 or string.sub(value, 1, 32) == ARGV[1] and #value > 32 then
  return ARGV[5] .. ' ?'
end
local left = call('PTTL', KEYS[1])
if value ~= ARGV[1] then
  return ARGV[5] .. string.format(' b %.0f', left)
elseif not is_plain or string.sub(before or '', 17, 33) ~= ARGV[4] then
  return ARGV[5] .. ' ?'
end
if left < tonumber(ARGV[2]) then
  left = ARGV[2]
  call('PEXPIRE', KEYS[1], left)
  call('PEXPIRE', KEYS[2], ARGV[3])
end
return ARGV[5] .. string.format(' r %.0f ', left) .. before
