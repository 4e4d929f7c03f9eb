-- As acquire_quick_take.lua, where a grant names its term.
--
-- ARGV[5]  the term, as the client knows it, or empty; the number of the request comes after it
--
-- The client knows the term in which this server was the primary a moment ago. That is good enough for the name in a
-- grant (link/terms.rs), and spares the server an INFO. If the lock was held and not seen released, the script asks for
-- the present term: under another one, the full script decides.
local term = table.remove(ARGV, 5)
local is_left = is_plain and before and string.sub(before, 34, 35) == ' t'
local value = is_left and redis.pcall('GETRANGE', KEYS[1], '0', '33')

local function is_over()
  if is_left or term == '' then
    term = present_term() or ''
  end
  return is_plain and term ~= '' and (not is_left or string.sub(before, 36, 51) == term)
end

if (not value or value == '') and is_over() and call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
