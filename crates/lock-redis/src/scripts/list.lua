-- Looks for locks: one step of a walk through the keys of this server.
--
-- ARGV[1]  where the step begins
-- ARGV[2]  the pattern of the keys
-- ARGV[3]  how many keys the step looks at, about
-- ARGV[4]  and further: how the keys end that show a lock which is held or waited for
--
-- Replies with where the next step begins, or `0`, and the keys.

local step = call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local found = { step[1] }
for _, key in ipairs(step[2]) do
  for index = 4, #ARGV do
    if string.sub(key, -#ARGV[index]) == ARGV[index] then
      found[#found + 1] = key
      break
    end
  end
end
return found
