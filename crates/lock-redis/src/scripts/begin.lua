-- How every script begins. The parts that follow are a function, up to where the end is.
--
-- ARGV[#ARGV]  the number of the request. The parts do not see it, so that the last of theirs may be left out
--
-- Replies with that number, by which the client knows whose answer it is, and what the script replies with or
-- the error that it ends with: "number text" or "number:integer", which cost no more than the text does, or
-- else with two parts.
local number = table.remove(ARGV)
local ok, result = pcall(function()
