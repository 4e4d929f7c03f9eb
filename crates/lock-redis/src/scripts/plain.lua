-- What the state of a lock says to a quick script.

local before = redis.pcall('GET', KEYS[2])
-- Whether there is no state, or one with a clock after 2019 that no claim and no client has flagged.
local is_plain = not before or not before.err and before > '15778368'
  and string.find(before, '^%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d[-123]%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x')
-- Whether it is of a later version, of which the full script tells.
local is_later = not is_plain and string.byte(before.err or before) == 118

