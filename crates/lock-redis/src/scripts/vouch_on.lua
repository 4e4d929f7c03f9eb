local run, problem = present_run()
if not run then
  return redis.error_reply(problem)
end
local known, quarantine, most, members, longest, begun = string.match(call('GET', KEYS[1]) or '', FORM)
if known ~= run or quarantine ~= ARGV[1] then
  return 0
end
local wanted = tonumber(ARGV[2])
if most == '-' or tonumber(most) < wanted then
  longest = string.format('%.0f', math.max(wanted, longest))
  call('SET', KEYS[1], table.concat({ run, quarantine, ARGV[2], members, longest, begun }, ' '))
end
return 1
