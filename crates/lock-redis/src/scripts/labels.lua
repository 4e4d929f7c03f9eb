-- Reads the labels of clients.
--
-- KEYS  where they are kept
--
-- Replies with a label, or an empty text, for each key.

-- The most bytes of a label, and one more: a longer text is none.
local MOST = 129

local labels = {}
for index, key in ipairs(KEYS) do
  local label = redis.pcall('GETRANGE', key, 0, MOST - 1)
  labels[index] = type(label) == 'string' and label or ''
end
return labels
