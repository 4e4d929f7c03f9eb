-- The owner asks again.
if not is_plain or string.sub(before or '', 17, 33) ~= ARGV[4] then
  return ARGV[5] .. ' ?'
end
