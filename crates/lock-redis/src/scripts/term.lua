--<terms
-- The term of this server: how the name of the history of its data begins, 16 digits. Nothing if this user may not know.
local function present_term()
  local told = redis.pcall('INFO', 'replication')
  local history = type(told) == 'string' and string.match(told, 'master_replid:(%x+)')
  return history and #history >= 16 and string.sub(history, 1, 16) or nil
end
--terms>
