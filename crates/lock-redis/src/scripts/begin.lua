-- How every full script begins. The parts that follow are a function, up to where the end is.
--
-- ARGV[#ARGV]  the number of the request. The parts do not see it, so that the last of theirs may be left out
--
-- A full script replies with the number of its request, by which the client recognises the answer, and with
-- the result or the error of the parts: "number text" or "number:integer", which cost no more than the text
-- does, or else a list of two.
local number = table.remove(ARGV)
local call = redis.call
local ok, result = pcall(function()

