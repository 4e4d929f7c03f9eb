-- Sets the counter of a server to the token of a majority.
-- KEYS: the lock, its counter
-- ARGV: owner, last token, whether to skip the check of the owner
-- Reply: {1, last token} if the counter is there, {0, ''} otherwise
if ARGV[3] ~= '1' then
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return { 0, '' } end
  if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[2]) then return { 0, '' } end
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', 3600000)
return { 1, ARGV[2] }
