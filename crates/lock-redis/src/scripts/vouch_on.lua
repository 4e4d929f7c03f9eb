local run, problem = present_run()
if not run then
  return redis.error_reply(problem)
end
local known, quarantine, most = string.match(call('GET', KEYS[1]) or '', '^([%x+]+) (%x+) ([%d-]+)$')
if known ~= run or quarantine ~= ARGV[1] then
  return 0
end
if most == '-' or tonumber(most) < tonumber(ARGV[2]) then
  call('SET', KEYS[1], table.concat({ run, quarantine, ARGV[2] }, ' '))
end
return 1
