-- The run of this server, the history of its data, and the history before, which is zeros if there was none. Or nothing,
-- and the reason. A node of a cluster has no record beside every lock, unless there is one `by_slot`.
local function present_histories(by_slot)
  local told = redis.pcall('INFO', 'server')
  local run = type(told) == 'string' and string.match(told, 'run_id:(%x+)')
  if not run then
    return nil, 'LOCKINFO ' .. (told.err or 'it names no run')
  elseif not by_slot and string.find(told, '_mode:cluster') then
    return nil, 'LOCKCLUSTER its record has no place beside every lock'
  end
  told = call('INFO', 'replication')
  return run, string.match(told, 'master_replid:(%x+)') or '', string.match(told, 'master_replid2:(%x+)') or ''
end

