-- The state of a lock, as far as a quick script reads it.

local before = redis.pcall('GET', KEYS[2])
-- Whether there is no state, or one with a clock after 2019 that no claim and no client has flagged. A pattern match
-- would cost more than the read of the key, so the script compares the length, the order and the sign after the clock.
local is_plain = not before
  or #before > 32 and before > '15778368' and before < 'a' and string.byte(before, 17) < 52

-- Whether the state is of a later version, which the full script reports.
local function is_later()
  return not is_plain and string.byte(before.err or before) == 118
end
