-- As acquire_quick.lua, and brings the value beside the lock.
--
-- KEYS[3]  the value, as in cell_store.lua
--
-- A reply that grants is a list of two: the number of the request, and a list of what acquire_quick.lua replies after
-- the number, and of the value, or nothing if there is none.
local function acquire()
