-- The run of this server and its history, as "run+history"; or nothing, and the reason.
local function present_run()
  local told = redis.pcall('INFO', 'server')
  local run = type(told) == 'string' and string.match(told, 'run_id:(%x+)')
  if not run then
    return nil, 'LOCKINFO ' .. (told.err or 'it names no run')
  elseif string.find(told, '_mode:cluster') then
    return nil, 'LOCKCLUSTER its standing has no place beside every lock'
  end
  return run .. '+' .. (string.match(call('INFO', 'replication'), 'master_replid2:(%x+)') or '')
end

