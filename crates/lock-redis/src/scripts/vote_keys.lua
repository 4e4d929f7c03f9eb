-- The parts that follow would take a seventh key for that of the permits.
local KEYS = { unpack(KEYS, 1, 6) }

