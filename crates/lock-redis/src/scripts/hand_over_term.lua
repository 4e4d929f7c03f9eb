-- Where a grant names its term, hand_over_quick.lua is a function, and hand_over_term_on.lua adds to the state what it
-- left out.
--
-- ARGV[7]  the term, as the client knows it, or empty; the number of the request comes after it
--
-- A lease that is handed over follows one that is present, so no lease of another term can be alive. The term is only a
-- name in the grant, and the one that the client knows is good enough (link/terms.rs).
local term = table.remove(ARGV, 7)
if term == '' then
  term = present_term()
end
local function hand_over()
