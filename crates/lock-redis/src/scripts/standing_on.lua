local text, problem = standing(KEYS[1], ARGV[5] == '*')
if not text then
  return redis.error_reply(problem)
end
local run, quarantine, most, members, longest, begun = string.match(text, FORM)
if members == ARGV[5] then
  return write_record(KEYS[1], text, SHOWN, run, quarantine, most, MEMBERS, longest, begun)
end
return text
