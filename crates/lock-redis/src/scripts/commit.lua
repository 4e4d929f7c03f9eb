-- Writes behind everything that this server has granted so far. Once its replicas have what was written, they have the
-- grants.
--
-- KEYS[1]  the marker; or the lock itself, while its slot is moved to another server, which has the marker
-- ARGV[1]  `lock` if the key is the lock. Its value stays as it is
--
-- Replies "term replicas": the name of the history of the server's data, and how many replicas are attached.

if ARGV[1] ~= 'lock' then
  call('SET', KEYS[1], '1', 'PX', '1000')
else
  local first = call('GETRANGE', KEYS[1], '0', '0')
  if first == '' then
    return redis.error_reply('LOCKGONE the lock is not here any more')
  end
  -- A write, to the server and its replicas.
  call('SETRANGE', KEYS[1], '0', first)
end
local told = redis.pcall('INFO', 'replication')
local term = type(told) == 'string' and string.match(told, 'master_replid:(%x+)')
local replicas = term and string.match(told, 'connected_slaves:(%d+)')
if not replicas then
  return redis.error_reply('LOCKTERM the user may not run INFO')
end
return term .. ' ' .. replicas
