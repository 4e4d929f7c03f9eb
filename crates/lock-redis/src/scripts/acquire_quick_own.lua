-- The owner asks again.
if not is_plain or string.sub(before or '', 17, 33) ~= ARGV[4] then
  return ARGV[5] .. ' ?'
end
--<terms
local lease = is_over(before) and string.match(before, '^ t%x+%.(%d+)', 34)
if not lease or tonumber(lease) < tonumber(ARGV[2]) then
  return ARGV[5] .. ' ?'
end
--terms>
