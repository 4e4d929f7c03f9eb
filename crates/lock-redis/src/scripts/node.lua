-- The standing of a server that votes in a quorum: whether it may have forgotten leases, and which quorum it is a
-- member of. A server forgets leases when it restarts, when its data is deleted, or when it becomes a master. The first
-- two show in the run that the server names, or in the loss of this record; the third shows in the history that the
-- server took over at that moment.
--
-- The record is "run quarantine most members longest begun":
--   run         the run and its history, as "run+history"
--   quarantine  the name of the quarantine that began with them
--   most        the longest lease, in ms, that was vouched for, or `-` in quarantine
--   members     the membership, or `-`
--   longest     the longest lease, in ms, that any client named in the quarantine or in an earlier record
--   begun       when the quarantine began, in ms by this server's clock; or `-` if no clock may end it

local FORM, SHOWN = '^([%x+]+) (%x+) ([%d-]+) ([%x-]+) (%d+) ([%d-]+)$', '%s %s %s %s %.0f %s'

-- The terms of the client, for the record of a quarantine.
local SEED, MEMBERS, LONGEST, ENDING = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

-- The record of this run, under these terms. A record that is absent, belongs to another run or has an earlier form is
-- replaced by that of a new quarantine, and so is every record if the quarantine is to begin anew. A quarantine ends
-- twice the longest lease after its beginning. If the clock was set back, that counts from now.
-- Nothing, and the reason, if the run is unknown.
local function standing(record, anew)
  local run, problem = present_run()
  if not run then
    return nil, problem
  end
  local text, known, quarantine, most, members, longest, begun = read_record(record, FORM)
  if text and not known and not string.match(text, '^[%x+]+ %x+ [%d-]+$') then
    return nil, 'LOCKNODE the key of its standing holds something else'
  end
  local now, time = present_time()
  begun = tonumber(begun)
  if known ~= run or anew then
    quarantine = redis.sha1hex(table.concat({ SEED, run, time[1], time[2] }, ' '))
    longest = math.max(LONGEST, tonumber(longest) or 0)
    -- A restart ends no membership.
    members = not anew and members or MEMBERS
    most, begun = '-', ENDING ~= 'n' and now or nil
  elseif most == '-' then
    longest = math.max(LONGEST, longest)
    begun = ENDING ~= 'n' and since(begun, now) or nil
    if begun and ENDING == 'c' and now - begun >= 2 * longest then
      most = shown(longest)
    end
  end
  return write_record(record, text, SHOWN, run, quarantine, most, members, longest, shown(begun))
end

