-- To the parts that follow a seventh key means permits.
local KEYS = { unpack(KEYS, 1, 6) }

