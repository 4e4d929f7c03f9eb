-- The beginning of every full script. The parts that follow are a function, which ends in end.lua.
--
-- ARGV[#ARGV]  the number of the request. The parts do not see it, so their own last argument may be left out
--
-- A full script replies with the number of its request, by which the client recognises the answer, and with
-- the result or the error of the parts: "number text" or "number:integer", which cost no more than the text
-- alone, or otherwise a list of two.
local number = table.remove(ARGV)
local call = redis.call
local ok, result = pcall(function()

