local ended = 0
if is_shared() then
  ended = call('ZCOUNT', KEYS[5], '(' .. string.format('%.0f', now), '+inf')
elseif value then
  ended = 1
end
-- Deleted, rather than given to the next in place: clients that watch the key shall know.
call('DEL', KEYS[1], KEYS[5], KEYS[6])
value, marked = nil, false

pcall(serve)
redis.pcall('PUBLISH', ARGV[1], 'released')
settle()
return ended
