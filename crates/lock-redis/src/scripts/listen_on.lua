if not (state.listens and state.is_flagged) then
  state.listens, state.is_flagged = true, true
  write_state(math.max(call('PTTL', KEYS[2]), HOUR))
end
if not state.problem then
  mark()
end
return 1
