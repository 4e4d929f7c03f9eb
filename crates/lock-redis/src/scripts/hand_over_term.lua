-- Where a grant names its term, hand_over_quick.lua is a function, and hand_over_term_on.lua adds to the state what it
-- left out.
local function hand_over()
