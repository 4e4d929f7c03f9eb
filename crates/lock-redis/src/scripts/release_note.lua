-- Notes in the state of a lock that the lock was released, after a script without that key has released it.
--
-- KEYS[1]  the state
-- ARGV[1]  how the token of the owner begins that released: 16 digits
-- ARGV[2]  the number of the request
--
-- Replies with the number alone. Changes nothing if there was another grant since.

local state = redis.pcall('GETRANGE', KEYS[1], '0', '35')
if type(state) == 'string' then
  local at = string.byte(state) == 119 and 35 or 34
  if string.sub(state, at - 16, at + 1) == ARGV[1] .. ' t' then
    redis.call('SETRANGE', KEYS[1], at, 'r')
  end
end
return ARGV[2]
