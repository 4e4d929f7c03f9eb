-- Most locks are free when a client asks for them, and then this is all. The lock is written first: without
-- memory, or without a right, this write fails. The state is written and read in one call, which costs less than two.
--<terms
-- ARGV[5]  the term, as the client knows it, or empty; the number of the request comes after it
--
-- The client knows the term in which this server was the primary a moment ago. That is good enough for the name in a
-- grant (link/terms.rs), and spares the server an INFO.
local term = table.remove(ARGV, 5)
if term == '' then
  term = present_term()
  if not term then
    return ARGV[5] .. ' ?'
  end
end

-- Whether no lease of another term goes on, by the state that the latest grant left behind. If that lock was not seen
-- released, the server is asked for the present term.
local function is_over(state)
  return string.sub(state, 34, 35) ~= ' t' or string.sub(state, 36, 51) == present_term()
end
--terms>
if call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
