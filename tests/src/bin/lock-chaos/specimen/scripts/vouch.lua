-- Returns the run of a server, and whether it votes. Marks it as voting if it is the given run.
-- KEYS: the marker
-- ARGV: the run, or nothing
-- Reply: {run, whether it votes}
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if ARGV[1] == run then redis.call('SET', KEYS[1], run) end
return { run, redis.call('GET', KEYS[1]) == run and 1 or 0 }
