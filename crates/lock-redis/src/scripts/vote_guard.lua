if record then
  local run, quarantine, most = standing(record, ARGV[1])
  if not run then
    return redis.error_reply(quarantine)
  elseif most == '-' then
    return 'a ' .. quarantine
  elseif tonumber(ARGV[2]) > tonumber(most) then
    return redis.error_reply('LOCKVOUCH a lease of ' .. ARGV[2] .. ' ms, where ' .. most .. ' ms is the longest')
  end
end

