-- What a server that votes among several knows of having forgotten. Leases may be forgotten by a server
-- that restarts or whose data is deleted, and by one that becomes a master. The first two show in the run
-- that it names, or in the loss of this record; the third in the history that it took over at that moment.
--
-- The record is "run quarantine most": the run and that history, as "run+history"; the name of the
-- quarantine that began with it; and the longest lease, in ms, for which somebody has vouched, or `-`.

-- The run of this server and its history; or nothing, and why.
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

-- The run, the quarantine, and the longest lease in ms or `-`, as the record has them. One that belongs to
-- another run, or to nobody, makes way for that of a quarantine whose name is made from the seed. Nothing,
-- and why, if that cannot be told.
local function standing(record, seed)
  local run, problem = present_run()
  if not run then
    return nil, problem
  end
  local text = call('GET', record)
  local known, quarantine, most = string.match(text or '', '^([%x+]+) (%x+) ([%d-]+)$')
  if known == run then
    return run, quarantine, most
  elseif text and not known then
    return nil, 'LOCKNODE the key of its standing holds something else'
  end
  local time = call('TIME')
  quarantine = redis.sha1hex(table.concat({ seed, run, time[1], time[2] }, ' '))
  call('SET', record, run .. ' ' .. quarantine .. ' -')
  return run, quarantine, '-'
end

