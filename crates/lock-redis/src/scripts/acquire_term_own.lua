-- The owner asks again.
local lease = is_left and is_over() and string.sub(before, 17, 33) == ARGV[4] and string.match(before, '^ t%x+%.(%d+)', 34)
if not lease or tonumber(lease) < tonumber(ARGV[2]) then
  return ARGV[5] .. ' ?'
end
