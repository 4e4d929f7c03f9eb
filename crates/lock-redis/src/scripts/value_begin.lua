-- A full script that brings the value beside the lock with a grant: value_end.lua replaces end.lua.
--
-- KEYS[#KEYS]  the value, as in cell_store.lua. The parts do not see it
local value_key = table.remove(KEYS)
