local FORM, SHOWN = '^(%x+) (%x+) (%d+) ([%d-]+)$', '%s %s %.0f %s'

local run, history, earlier = present_histories(ARGV[3] == 's')
if not run then
  return redis.error_reply(history)
end
local text, known, before, most, begun = read_record(KEYS[1], FORM)
if text and not known then
  return redis.error_reply('LOCKDATA the key of the record of its data holds something else')
end

-- Whether the data of this run came from a primary. A server that starts as a primary takes the history from its file for
-- the one before, but receives nothing. Before version 7 it does neither. From Redis 8.4 on, a slot that moves in one step
-- comes as data from a primary do, so nothing is known of a node of a cluster.
local function is_replicated()
  local major, minor = string.match(call('INFO', 'server'), 'redis_version:(%d+)%.(%d+)')
  if ARGV[3] == 's' and major and major * 1000 + minor >= 8004 then
    return false
  end
  local bytes = string.match(call('INFO', 'stats'), 'total_net_repl_input_bytes:(%d+)')
  return not bytes or tonumber(bytes) > 0
end

-- Whether the data is what became of the data with this record. A primary without a replica forgets the history before,
-- and may name its history anew.
local function goes_on()
  if known == run then
    return history == before or earlier == before or not string.find(earlier, '[^0]')
  end
  return earlier == before and is_replicated()
end

local now = present_time()
most, begun = math.max(ARGV[1], most or 0), since(tonumber(begun), now)
if ARGV[2] == 'i' then
  begun = nil
elseif not known or not goes_on() or begun and known ~= run then
  begun = now
end
local left = begun and begun + most - now or 0
if left <= 0 then
  begun = nil
end
write_record(KEYS[1], text, SHOWN, run, history, most, shown(begun))
return math.max(left, 0)
