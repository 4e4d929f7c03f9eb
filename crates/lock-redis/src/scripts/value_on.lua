-- Writes the value beside a lock for an owner that holds the lock alone. The parts that follow are a function, which ends
-- in value_on_end.lua. They hand the lock over, as hand_over_quick.lua does, or free it.
--
-- KEYS[1..4]  as in hand_over_quick.lua
-- KEYS[5]     the value: "owner token value", with the owner that wrote it and its fencing token
-- ARGV[1..6]  as in hand_over_quick.lua
-- ARGV[7]     the fencing token of the owner
-- ARGV[8]     the value
-- ARGV[9]     the channel for the message about the new value
-- ARGV[10]    how long the value is kept, in ms; 0 for ever
-- ARGV[11]    the term, as in hand_over_term.lua, where grants name their term
-- last        the number of the request
--
-- Replies with the number and, after a space, `n` if the owner does not hold the lock, or there is a value with a higher
-- token: then nothing was changed; `d` if the owner does not hold the lock, but the value is the one of this request;
-- or as hand_over_quick.lua, where `?` says that the value was written and the full script has to release the lock.

local number, kept, told_term = ARGV[#ARGV], ARGV[10], #ARGV == 12 and ARGV[11]
local token, bytes, changed = ARGV[7], ARGV[8], ARGV[9]
local text = ARGV[1] .. ' ' .. token .. ' ' .. bytes
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '33')
if type(holder) == 'table' then
  return { number, holder }
end
if holder ~= ARGV[1] and holder ~= ARGV[1] .. 'w' then
  local written = redis.pcall('GET', KEYS[5])
  if type(written) == 'table' then
    return { number, written }
  end
  return number .. (written == text and ' d' or ' n')
end
-- Compared as texts, because a number would lose digits.
local written = redis.pcall('GETRANGE', KEYS[5], '0', '53')
if type(written) == 'table' then
  return { number, written }
end
written = string.match(written, '^%x+ (%d+) ') or ''
if #written > #token or (#written == #token and written > token) then
  return number .. ' n'
end
if kept == '0' then
  redis.call('SET', KEYS[5], text)
else
  redis.call('SET', KEYS[5], text, 'PX', kept)
end
redis.pcall('PUBLISH', changed, 'changed')

-- From here on, the arguments are those of hand_over_quick.lua, and a small value.
ARGV[7] = number
ARGV[8] = #bytes <= 1024 and string.format('%s %d ', token, #KEYS[1]) .. KEYS[1] .. bytes or nil
ARGV[9], ARGV[10], ARGV[11], ARGV[12] = nil, nil, nil, nil
if told_term then
  table.insert(ARGV, 7, told_term)
end

local function release()
