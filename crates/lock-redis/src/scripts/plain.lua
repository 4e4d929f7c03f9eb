-- What the state of a lock says to a quick script.

local before = redis.pcall('GET', KEYS[2])
-- Whether there is no state, or one with a clock after 2019 that no claim and no client has flagged. To match a pattern
-- would cost more than to read the key, so the length, the order and the sign after the clock must do.
local is_plain = not before
  or #before > 32 and before > '15778368' and before < 'a' and string.byte(before, 17) < 52

-- Whether the state is of a later version, of which the full script tells.
local function is_later()
  return not is_plain and string.byte(before.err or before) == 118
end
