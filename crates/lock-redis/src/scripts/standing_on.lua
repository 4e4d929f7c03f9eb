local run, quarantine, most = standing(KEYS[1], ARGV[1])
if not run then
  return redis.error_reply(quarantine)
end
return run .. ' ' .. quarantine .. ' ' .. most
