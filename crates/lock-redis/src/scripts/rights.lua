-- Runs each command that the scripts of locks run, on a key of no lock, and names the commands that the server refuses
-- to this user. It leaves the key as it was: absent.
--
-- KEYS[1]  the key
-- ARGV[1]  a channel of no lock
--
-- Replies with the names, each followed by a space. "channel" stands for a channel that the user may not use.

local key, channel, text = KEYS[1], ARGV[1], ''

-- Whether the server lets the user run this command. The command itself may fail for any other reason.
local function may(...)
  local reply = redis.pcall(...)
  local problem = type(reply) == 'table' and reply.err
  if not problem then
    return true
  end
  local is_refused = false
  for _, word in ipairs({ 'NOPERM', 'ACL failure', 'no permissions', 'user executing the script' }) do
    is_refused = is_refused or string.find(problem, word, 1, true) ~= nil
  end
  if is_refused and string.find(problem, 'channel', 1, true) then
    text = text .. 'channel '
  elseif is_refused then
    text = text .. string.lower((...)) .. ' '
  end
  return not is_refused
end

for _, command in ipairs({
  { 'GET', key },
  { 'GETRANGE', key, 0, 1 },
  { 'EXISTS', key },
  { 'PTTL', key },
  { 'TIME' },
  { 'PEXPIRE', key, 1 },
  { 'HGET', key, 'a' },
  { 'HMGET', key, 'a' },
  { 'HDEL', key, 'a' },
  { 'LLEN', key },
  { 'LINDEX', key, 0 },
  { 'LRANGE', key, 0, 0 },
  { 'LREM', key, 1, 'a' },
  { 'LPOP', key },
  { 'ZSCORE', key, 'a' },
  { 'ZCARD', key },
  { 'ZCOUNT', key, 0, 1 },
  { 'ZRANGE', key, 0, 0 },
  { 'ZREVRANGE', key, 0, 0 },
  { 'ZRANGEBYSCORE', key, 0, 1 },
  { 'ZREM', key, 'a' },
  { 'PUBLISH', channel, 'rights' },
}) do
  may(unpack(command))
end
-- What is written goes away at once. So nothing is written unless it can be deleted.
if may('DEL', key) then
  for _, command in ipairs({
    { 'SET', key, 'a', 'PX', 1000 },
    { 'SETRANGE', key, 0, 'a' },
    { 'RPUSH', key, 'a' },
    { 'LPUSH', key, 'a' },
    { 'HSET', key, 'a', 1 },
    { 'HINCRBY', key, 'a', 1 },
    { 'ZADD', key, 1, 'a' },
  }) do
    may(unpack(command))
    redis.pcall('DEL', key)
  end
end
return text
