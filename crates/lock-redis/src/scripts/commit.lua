-- Writes a marker behind everything that this server has granted so far. Once its replicas have the marker, they have the
-- grants.
--
-- KEYS[1]  the marker
--
-- Replies "term replicas": the name of the history of the server's data, and how many replicas are attached.

call('SET', KEYS[1], '1', 'PX', '1000')
local told = redis.pcall('INFO', 'replication')
local term = type(told) == 'string' and string.match(told, 'master_replid:(%x+)')
local replicas = term and string.match(told, 'connected_slaves:(%d+)')
if not replicas then
  return redis.error_reply('LOCKTERM the user may not run INFO')
end
return term .. ' ' .. replicas
