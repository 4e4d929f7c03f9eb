-- A server's vote for the owner of a lock.
-- KEYS: the lock, its counter, the marker
-- ARGV: owner, ttl in ms, how many tokens, least last token, whether the marker must be of this run
-- Reply: {1, last token}, {0, ''} if another owner has it, {-1, ''} if the server may have forgotten its
-- leases
local marker = redis.call('GET', KEYS[3])
if ARGV[5] == '1' then
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  if marker ~= run then return { -1, '' } end
elseif not marker then
  return { -1, '' }
end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return { 0, '' } end
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if not holder then
  last = math.max(last + ARGV[3], tonumber(ARGV[4]))
  redis.call('SET', KEYS[2], string.format('%.0f', last), 'PX', 3600000)
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return { 1, string.format('%.0f', last) }
