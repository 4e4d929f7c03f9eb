local ended = 0
if is_shared() then
  ended = call('ZCOUNT', KEYS[5], '(' .. string.format('%.0f', now), '+inf')
elseif value then
  ended = 1
end
-- Deletes the lock, rather than gives it to the next claim in place: clients that watch the key
-- must notice.
call('DEL', KEYS[1], KEYS[5], KEYS[6])
value, marked = nil, false
note_release() --terms

pcall(serve)
redis.pcall('PUBLISH', ARGV[1], 'released')
pcall(settle)
return ended
